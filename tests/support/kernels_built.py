"""Build Triton's kernels for a GPU that is not there: all that its compiler checks before it makes machine code.

Triton's interpreter runs a kernel as Python, in which a variable may change its type from one turn of a loop to the
next; the compiler refuses that. Run as a script, without TRITON_INTERPRET, this takes the training steps of
`test_device_training.CASES` on the CPU with each launch replaced by what comes before it, and prints how often each
kernel was built.
"""

from __future__ import annotations

import collections
import json
import os
import sys
from pathlib import Path
from typing import Any

GPU = "cuda", 90, 32  # kind, compute capability, threads of a warp


def build_instead_of_running() -> collections.Counter[str]:
    """From now on a launch builds its kernel, and runs nothing; how many variants of each were built."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, make_backend
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    target, built, seen = GPUTarget(*GPU), collections.Counter[str](), set[Any]()

    class NoDevice:
        """A driver that names a GPU and has none."""

        def get_current_target(self) -> GPUTarget:
            return target

        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, device: int) -> int:
            return 0

    def build(kernel: Any, key: Any, signature: Any, device: int, constexprs: Any, options: Any, attrs: Any, _: Any):
        """The kernel in Triton's own language of tiles, with all types checked."""
        if (kernel, key) in seen:
            return
        seen.add((kernel, key))
        backend, context = make_backend(target), ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        source = ASTSource(kernel, signature, constexprs, attrs)
        source.make_ir(target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
        built[kernel.__name__] += 1

    run = JITFunction.run
    driver.set_active(NoDevice())
    JITFunction._do_compile = build
    JITFunction.run = lambda self, *args, grid=None, warmup=False, **kwargs: run(
        self, *args, grid=grid, warmup=True, **kwargs
    )
    return built


def main() -> None:
    built = build_instead_of_running()
    import torchnpn.kernels.triton  # noqa: F401

    os.environ["TRITON_INTERPRET"] = "1"  # engines take Triton on a CPU only where it is interpreted
    sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "training")]
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
                    likelihood = likelihood_for(shape, data, shape.get("replicas", ()))
                    rules = recipe(**{**settings, "precision": precision})
                    engine = device_engine(network(**shape), dataset(**data), likelihood, prior, rules, fused=True)
                    engine.stepper.step()
    print(json.dumps(built))


if __name__ == "__main__":
    main()
