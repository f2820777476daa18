"""Build Triton's kernels for a GPU that is not there: all that its compiler checks before it makes machine code.

Triton's interpreter runs a kernel as Python, in which a variable may change its type from one turn of a loop to the
next; the compiler refuses that. Run as a script, this takes the training steps of `test_device_training.CASES` on the
CPU with each launch replaced by what comes before it, and prints how often each kernel was built.
"""

from __future__ import annotations

import collections
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)  # looked for when a kernel is defined

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime import driver
from triton.runtime.jit import JITFunction

TARGET = GPUTarget("cuda", 90, 32)
BUILT: collections.Counter[str] = collections.Counter()
_SEEN: set[Any] = set()


class _NoDevice:
    """A driver that names a GPU and has none."""

    def get_current_target(self) -> GPUTarget:
        return TARGET

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def _build(self: Any, key: Any, signature: Any, device: Any, constexprs: Any, options: Any, attrs: Any, _: Any) -> None:
    """In place of `JITFunction._do_compile`: the kernel in Triton's own language of tiles, with all types checked."""
    if (self, key) in _SEEN:
        return
    _SEEN.add((self, key))
    backend, context = make_backend(TARGET), ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = ASTSource(self, signature, constexprs, attrs)
    source.make_ir(TARGET, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    BUILT[self.__name__] += 1


def build_instead_of_running() -> None:
    """From now on a launch builds its kernel, and runs nothing."""
    driver.set_active(_NoDevice())
    run = JITFunction.run
    JITFunction._do_compile = _build
    JITFunction.run = lambda self, *args, grid=None, warmup=False, **kwargs: run(
        self, *args, grid=grid, warmup=True, **kwargs
    )


def main() -> None:
    build_instead_of_running()
    import torchnpn.kernels.triton  # noqa: F401

    os.environ["TRITON_INTERPRET"] = "1"  # engines take Triton on a CPU only where it is interpreted
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
    import pytest
    from test_device_training import CASES, WAYS, likelihood_for

    from support.device_cases import dataset, network, recipe
    from torchnpn.training.engine import device_engine

    for way in ({}, *WAYS.values()):
        for shape, data, prior, settings in CASES.values():
            for precision in ("float32", "fast"):
                with pytest.MonkeyPatch.context() as patch:
                    for name, value in way.items():
                        patch.setattr(f"torchnpn.kernels.triton.{name}", value)
                    rows, net = dataset(**data), network(**shape)
                    likelihood = likelihood_for(shape, data, shape.get("replicas", ()))
                    settings_ = recipe(**{**settings, "precision": precision})
                    device_engine(net, rows, likelihood, prior, settings_, fused=True).stepper.step()
    print(json.dumps(BUILT))


if __name__ == "__main__":
    main()
