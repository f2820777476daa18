"""What the package promises as a whole: its public names, their documentation and types, and a light import."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import types
from importlib import resources
from pathlib import Path

import pytest

import torchnpn

ROOT = Path(__file__).parent.parent
PACKAGES = ["torchnpn"]  # and every package among its public names
PACKAGES += [f"torchnpn.{name}" for name in torchnpn.__all__ if hasattr(getattr(torchnpn, name), "__all__")]


def public(module):
    return {name: getattr(module, name) for name in module.__all__}


def functions():
    """(dotted name, function) for public functions and for the public methods of public classes."""
    for package in PACKAGES:
        members = list(public(importlib.import_module(package)).items())
        for name, module in [item for item in members if isinstance(item[1], types.ModuleType)]:
            if not hasattr(module, "__all__"):  # a module that holds variants, such as maps.paper
                own = inspect.getmembers(module, inspect.isfunction)
                members += [(f"{name}.{n}", f) for n, f in own if f.__module__ == module.__name__ and n[0] != "_"]
        for name, value in members:
            if inspect.isfunction(value):
                yield f"{package}.{name}", value
            elif inspect.isclass(value):
                for n in vars(value):
                    if inspect.isroutine(method := getattr(value, n)) and not n.startswith("_"):
                        yield f"{package}.{name}.{n}", method


FUNCTIONS = dict(functions())


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", torchnpn.__version__)
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_exist_and_are_documented(package):
    module = importlib.import_module(package)
    assert module.__doc__
    assert len(set(module.__all__)) == len(module.__all__)
    for name, value in public(module).items():
        if callable(value) or isinstance(value, types.ModuleType):
            assert (value.__doc__ or "").strip(), f"{package}.{name} needs a docstring"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_are_typed_and_documented(name):
    function = FUNCTIONS[name]
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty or parameter.name == "self", parameter.name
    assert signature.return_annotation is not inspect.Signature.empty
    assert (inspect.getdoc(function) or "").strip()


def test_types_are_shipped():
    assert (resources.files("torchnpn") / "py.typed").is_file()


def test_import_alone_loads_nothing_heavy():
    """`import torchnpn` waits with torch and all else until a name of it is used."""
    code = (
        "import sys, torchnpn; print([name for name in ('torch', 'numpy', 'scipy', 'sklearn') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"


def test_import_is_light():
    """What belongs to the command, to figures, to tests or to a compiler is not loaded by any public name."""
    heavy = ["pandas", "pyarrow", "matplotlib", "typer", "rich", "hypothesis", "pytest", "torch._inductor"]
    theirs = "import sklearn.base, sklearn.metrics, sklearn.utils.multiclass"  # loads pandas where it is installed
    ours = "before = set(sys.modules); from torchnpn import *; loaded = set(sys.modules) - before"
    code = f"import sys; {theirs}; {ours}; print([x for x in {heavy} if x in loaded])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"
    assert result.stderr == ""
