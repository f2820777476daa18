"""Imports go one way: a reader can follow the data, and a change below cannot be broken by one above."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import torchnpn

LAYERS = (  # from the bottom up; a module imports from layers below its own
    ("finite",),
    ("moments",),
    ("sparse",),
    ("families",),
    ("maps",),
    ("kernels",),
    ("nn",),
    ("likelihoods", "priors"),
    ("training",),
    ("estimators",),
    ("logistic",),
    ("documents", "links"),
    ("tables",),
    ("demo",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
LEAVES = {"datasets", "metrics", "plots", "report", "table_files"}  # know arrays and Moments, no more
FLOOR = {"_files", "_text", "_torch"}  # know nothing of the package; anything may use them
FREE = {"io"}  # may use anything but the demo
STUDIES = {"demo"}  # only the command imports it
USE_PUBLIC_API = {"demo", "cli"}  # may write `import torchnpn as npn`

PACKAGES = ("torchnpn", "npn_studies")
Sources = Mapping[str, str]  # dotted module name -> source text


def package_sources() -> dict[str, str]:
    root = Path(torchnpn.__file__).parent
    files = {path: path.relative_to(root.parent).with_suffix("").parts for path in sorted(root.rglob("*.py"))}
    return {".".join(parts).removesuffix(".__init__"): path.read_text() for path, parts in files.items()}


def imports(module: str, sources: Sources, type_only: bool) -> Iterator[str]:
    """The package's own modules that `module` imports, wherever in the file; with `type_only`, for its types too."""
    tree = ast.parse(sources[module])
    skipped: set[ast.AST] = set()
    if not type_only:
        branches = (node for node in ast.walk(tree) if isinstance(node, ast.If))
        for_types = (branch for branch in branches if "TYPE_CHECKING" in ast.unparse(branch.test))
        skipped = {inner for branch in for_types for inner in ast.walk(branch)}
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in PACKAGES)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:  # a package counts as its own first level; none of its names end in __init__ here
                is_package = any(name.startswith(f"{module}.") for name in sources)
                above = module.split(".")[: len(module.split(".")) - node.level + is_package]
                origin = ".".join([*above, *filter(None, [node.module])])
            if origin.split(".")[0] in PACKAGES:
                for alias in node.names:
                    inner = f"{origin}.{alias.name}"
                    yield inner if inner in sources else origin


def top(module: str) -> str:
    """The layer's name: the part after `torchnpn.`, or nothing for the package itself."""
    return module.split(".")[1] if "." in module else ""


def violations(sources: Sources) -> list[str]:
    """What breaks the rules, in words."""
    found = []
    for module in sources:
        here = top(module)
        if here and here not in RANK.keys() | LEAVES | FREE | FLOOR:
            found.append(f"{module} is in no layer: add {here!r} to tests/test_layering.py, where it belongs")
            continue
        for imported in imports(module, sources, type_only=True):
            there = top(imported)
            if imported.split(".")[0] == "npn_studies":
                allowed = False
            elif here in ("", there):
                allowed = there not in STUDIES or here == there
            elif here in FLOOR or there in FLOOR:
                allowed = there in FLOOR and here not in FLOOR
            elif there == "":
                allowed = here in USE_PUBLIC_API
            elif here in LEAVES:
                allowed = there == "moments"
            elif here in FREE:
                allowed = there not in STUDIES | {"cli"}
            else:
                allowed = there in LEAVES | FREE or RANK.get(there, len(LAYERS)) < RANK[here]
            if not allowed:
                found.append(f"{module} imports {imported}")
    return found


def cycle(sources: Sources) -> list[str]:
    """Some ring of modules that import each other when run, or nothing."""
    graph = {module: set(imports(module, sources, type_only=False)) - {module} for module in sources}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_imports_go_one_way():
    assert violations(package_sources()) == []


def test_no_import_cycles():
    assert cycle(package_sources()) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("torchnpn.families.gamma", "from torchnpn import maps"),
        ("torchnpn.maps.affine", "from torchnpn.nn.linear import Linear"),
        ("torchnpn.moments", "from . import maps"),
        ("torchnpn.maps", "def late():\n    from torchnpn.training import train"),
        ("torchnpn.priors", "import torchnpn.likelihoods"),
        ("torchnpn.metrics", "from torchnpn.families import kl"),
        ("torchnpn.nn", "import torchnpn as npn"),
        ("torchnpn.io", "from torchnpn.demo import toy"),
        ("torchnpn.nn", "from npn_studies import baselines"),
        ("torchnpn.plots", "from torchnpn.demo import toy"),
        ("torchnpn._files", "from torchnpn.moments import Moments"),
        ("torchnpn.utils", ""),
    ],
)
def test_a_wrong_import_is_found(module, source):
    names = ("torchnpn", "torchnpn.maps", "torchnpn.demo")
    assert len(violations({**dict.fromkeys(names, ""), module: source})) == 1


def test_a_right_import_is_not():
    sources = {
        "torchnpn": "from torchnpn import maps, nn",
        "torchnpn.maps": "from torchnpn.moments import Moments",
        "torchnpn.nn": "from .maps import relu\nfrom torchnpn import maps\nfrom torchnpn.metrics import crps",
        "torchnpn.moments": "import torch",
        "torchnpn.metrics": "from torchnpn.moments import Moments\nfrom torchnpn._files import whole_file",
        "torchnpn._files": "import os",
        "torchnpn.demo": "from torchnpn import plots, training",
        "torchnpn.cli": "from torchnpn.demo import toy",
    }
    assert violations(sources) == []
    assert cycle(sources) == []


def test_a_ring_is_found_unless_it_is_for_types():
    a = "from torchnpn.maps import b"
    hint = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from torchnpn.maps import a"
    assert cycle({"torchnpn.maps.a": a, "torchnpn.maps.b": "import torchnpn.maps.a"})
    assert not cycle({"torchnpn.maps.a": a, "torchnpn.maps.b": hint})
