"""Imports go one way and by front doors: a reader can follow the data, and a package can change inside."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import npn_studies
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
    ("progress",),
    ("columns",),
    ("rows",),
    ("conformal",),
    ("estimators",),
    ("inspection",),
    ("logistic",),
    ("documents", "links"),
    ("tables",),
    ("exporting",),
    ("serve",),
    ("demo",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
LEAVES = {"datasets", "metrics", "plots", "report", "table_files"}  # know arrays and Moments, no more
FLOOR = {
    "_cuda",
    "_files",
    "_text",
    "_torch",
    "censoring",
    "settings",
}  # know nothing of the package; anything may use them
FREE = {"io"}  # may use anything but the demo
STUDIES = {"demo"}  # only the command imports it
USE_PUBLIC_API = {"demo", "exporting", "serve", "cli"}  # may write `import torchnpn as npn`

PACKAGES = ("torchnpn", "npn_studies")
Sources = Mapping[str, str]  # dotted module name -> source text
LAZY_DOORS = {("torchnpn.kernels", "triton")}  # cannot be bound by an `__init__`: Triton is not installed everywhere


def package_sources(package: ModuleType = torchnpn) -> dict[str, str]:
    root = Path(package.__file__).parent
    files = {path: path.relative_to(root.parent).with_suffix("").parts for path in sorted(root.rglob("*.py"))}
    return {".".join(parts).removesuffix(".__init__"): path.read_text() for path, parts in files.items()}


def statements(module: str, sources: Sources, type_only: bool) -> Iterator[tuple[str, str | None]]:
    """What `module` imports of the packages, wherever in the file: the module, and the name that is taken from it.

    With `type_only`, also what it imports for its types alone.
    """
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
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] in PACKAGES)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:  # a package counts as its own first level; none of its names end in __init__ here
                above = module.split(".")[: len(module.split(".")) - node.level + is_package(module, sources)]
                origin = ".".join([*above, *filter(None, [node.module])])
            if origin.split(".")[0] in PACKAGES:
                yield from ((origin, alias.name) for alias in node.names)


def imports(module: str, sources: Sources, type_only: bool) -> Iterator[str]:
    """The packages' own modules that `module` imports."""
    for origin, name in statements(module, sources, type_only):
        yield inner if name and (inner := f"{origin}.{name}") in sources else origin


def is_package(module: str, sources: Sources) -> bool:
    return any(name.startswith(f"{module}.") for name in sources)


def doors(package: str, sources: Sources) -> set[str]:
    """What the `__init__` of a package offers: the names in `__all__`, and those that it imports as themselves."""
    offered = {name for home, name in LAZY_DOORS if home == package}
    for node in ast.parse(sources[package]).body:
        if isinstance(node, ast.ImportFrom):
            offered |= {alias.name for alias in node.names if alias.asname == alias.name}
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            offered |= set(ast.literal_eval(node.value))
    return offered


def side_entries(sources: Sources) -> list[str]:
    """Imports of a package of torchnpn, from outside of it, by another way than its `__init__`, in words."""
    found = []
    for module in sources:
        for origin, name in statements(module, sources, type_only=True):
            parts = origin.split(".")
            paths = [".".join(parts[:end]) for end in range(2, len(parts) + 1)]
            entered = [path for path in paths if is_package(path, sources) and not f"{module}.".startswith(f"{path}.")]
            if not entered or parts[0] != "torchnpn":
                continue
            if origin != entered[0]:
                found.append(f"{module} imports {origin}: take what it needs from {entered[0]}")
            elif name and name not in doors(origin, sources):
                found.append(f"{module} imports {name} from {origin}, whose __init__ does not offer it")
    return found


def unused_doors(sources: Sources) -> list[str]:
    """Doors for other packages that none of them takes, by an import or as an attribute of the package."""
    taken: set[tuple[str, str | None]] = set()
    for module in sources:
        found = [*statements(module, sources, type_only=True)]
        inside = {origin for origin, _ in found if f"{module}.".startswith(f"{origin}.")}
        taken |= {one for one in found if one[0] not in inside}
        attributes = {node.attr for node in ast.walk(ast.parse(sources[module])) if isinstance(node, ast.Attribute)}
        taken |= {(f"{origin}.{name}", word) for origin, name in found if name for word in attributes}
    side_doors = (
        (package, alias.name)
        for package in sources
        if is_package(package, sources)
        for node in ast.parse(sources[package]).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    )
    return [
        f"{package} offers {name}, which nobody takes" for package, name in side_doors if (package, name) not in taken
    ]


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


def test_the_drawing_for_contributors_is_of_these_layers():
    page = (Path(torchnpn.__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    layers, others = page.split("```\nfinite ")[1].split("```")[0].split("\n\n")
    drawn = tuple(tuple(line.split("  ")[0].strip().split(", ")) for line in f"finite {layers}".splitlines())
    assert drawn == LAYERS[:-1]  # `__main__` runs the command, no more
    leaves, free = (line.split(":")[1].split() for line in others.splitlines())
    assert (set(leaves), set(free)) == (LEAVES, FREE)
    named = set(page.split("are for all: ")[0].rsplit("```", 1)[1].replace("`", " ").replace(",", " ").split())
    assert {f"{name}.py" for name in FLOOR} <= named


def test_packages_are_entered_by_their_init():
    assert side_entries(package_sources() | package_sources(npn_studies)) == []


def test_every_door_is_used():
    assert unused_doors(package_sources() | package_sources(npn_studies)) == []


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


HOUSE = {  # a package with a door of each kind, and a package within it
    "torchnpn": "",
    "torchnpn.maps": "from torchnpn.maps import affine, normal as normal\n__all__ = ['linear']",
    "torchnpn.maps.affine": "from torchnpn.maps.normal import pdf",
    "torchnpn.maps.normal": "",
    "torchnpn.kernels": "from torchnpn.kernels.cpu import relu\nfrom torchnpn.kernels import choose",
    "torchnpn.kernels.choose": "",
    "torchnpn.kernels.cpu": "from torchnpn.kernels.cpu import relu as relu",
    "torchnpn.kernels.cpu.relu": "from torchnpn.kernels.choose import why_not",
    "torchnpn.kernels.triton": "",
    "torchnpn.kernels.triton.layer": "",
}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("torchnpn.nn", "from torchnpn.maps.affine import linear"),
        ("torchnpn.nn", "import torchnpn.maps.affine"),
        ("torchnpn.nn", "from torchnpn.maps import affine"),
        ("torchnpn.nn", "def late():\n    from torchnpn.maps import product"),
        ("torchnpn.nn", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from torchnpn.maps.normal import A"),
        ("torchnpn.nn", "from torchnpn.kernels import choose"),
        ("torchnpn.nn", "from torchnpn.kernels.cpu import relu"),
        ("torchnpn.nn", "from ..maps.affine import linear"),
        ("torchnpn.kernels.choose", "from torchnpn.kernels.cpu.relu import relu"),
        ("npn_studies.bench", "from torchnpn.maps.affine import linear"),
    ],
)
def test_a_side_entry_is_found(module, source):
    (words,) = side_entries(HOUSE | {"torchnpn.nn.linear": "", "npn_studies.bench": "", module: source})
    assert words.startswith(f"{module} imports ")


def test_an_unused_door_is_found():
    assert unused_doors(HOUSE) == ["torchnpn.maps offers normal, which nobody takes"]
    for use in ("from torchnpn.maps import normal", "from torchnpn import maps\nmaps.normal"):
        assert unused_doors(HOUSE | {"torchnpn.nn": use}) == []


def test_a_front_door_is_not():
    ways = "from torchnpn import maps\nimport torchnpn.maps\nfrom torchnpn.maps import linear, normal"
    lazy = "def late():\n    from torchnpn.kernels import triton"
    users = {
        "torchnpn.nn": f"{ways}\n{lazy}\nfrom .linear import Linear",
        "torchnpn.nn.linear": "from .. import maps\nfrom ..maps import normal",
        "npn_studies": "",
        "npn_studies.bench": "import torchnpn as npn\nfrom npn_studies.tables.rows import rows",
    }
    assert side_entries(HOUSE | users) == []
