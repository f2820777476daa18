"""Every private API of torch that the package uses, behind names; each has a test in tests/test_torch_private.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree

F = TypeVar("F", bound=Callable[..., Any])


def is_transformed(tensor: Tensor) -> bool:
    """Whether `torch.func` (grad, vmap, …) has wrapped a tensor: then kernels cannot have its memory."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def is_transforming() -> bool:
    """Whether a transform of `torch.func` is at work, whichever tensors it has wrapped."""
    return bool(torch._C._are_functorch_transforms_active())


def is_tracing() -> bool:
    """Whether fake tensors, `make_fx`, or what stands for a device in tests, see every operation."""
    return bool(torch._C._len_torch_dispatch_stack())


def has_values(tensor: Tensor) -> bool:
    """Whether there are values to look at: none while tracing, and none inside `torch.func.vmap`."""
    if is_tracing():
        return False
    while torch._C._functorch.is_gradtrackingtensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return not torch._C._functorch.is_batchedtensor(tensor)


def has_hooks(module: nn.Module) -> bool:
    """Whether somebody listens to the calls of a module itself, so that it has to be called."""
    hooks = module._forward_pre_hooks, module._forward_hooks, module._backward_pre_hooks, module._backward_hooks
    return any(hooks)


def modules_in(module: nn.Module) -> Iterator[nn.Module]:
    """A module and all that it holds, as often as it holds them: faster than `modules()`, which makes names."""
    yield module
    for inner in module._modules.values():
        if inner is not None:
            yield from modules_in(inner)


def own_parameters(module: nn.Module) -> list[Tensor]:
    """The parameters that a module holds itself, without those of the modules in it."""
    return [parameter for parameter in module._parameters.values() if parameter is not None]


def version(tensor: Tensor) -> int:
    """How often a tensor was changed in place, as far as torch counts."""
    return tensor._version


def register_pytree(
    cls: type, name: str, flatten: Callable[[Any], tuple[dict[str, Any], Any]], build: Callable[[Any, Any], Any]
) -> None:
    """Let torch take a class apart, into tensors by attribute and the rest; `name` is for files of `torch.export`."""

    def with_keys(instance: Any) -> tuple[list[tuple[Any, Any]], Any]:
        leaves, rest = flatten(instance)
        return [(_pytree.GetAttrKey(key), leaf) for key, leaf in leaves.items()], rest

    def plain(instance: Any) -> tuple[list[Any], Any]:
        keyed, rest = with_keys(instance)
        return [leaf for _, leaf in keyed], rest

    _pytree.register_pytree_node(cls, plain, build, flatten_with_keys_fn=with_keys, serialized_type_name=name)


def constant_under_compile(function: F) -> F:
    """`torch.compiler.assume_constant_result`, without loading the compiler."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def standard_gamma(shape: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draws from gamma distributions of rate 1, from a given generator."""
    return torch._standard_gamma(shape, generator=generator)


def refused_when_differentiated(message: str, outputs: Sequence[Any]) -> Any:
    """The outputs of a backward pass; whoever differentiates through them gets a RuntimeError with this message."""
    refuse = torch._C._functions.DelayedError(message.encode(), len(outputs))
    return refuse(*(x.detach().requires_grad_() if isinstance(x, Tensor) else x for x in outputs))


class CpuFeatures(NamedTuple):
    """What decides which library multiplies matrices faster."""

    vendor: str  # as the CPU calls itself; "" where that is not known
    has_avx512: bool  # and torch has oneDNN


@cache
def cpu_features() -> CpuFeatures:
    """Of the machine; the vendor is known on Linux."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.is_file() else []
    vendor = next((line.split(":")[1].strip() for line in lines if line.startswith("vendor_id")), "")
    onednn = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return CpuFeatures(vendor, onednn and torch.backends.cpu.get_cpu_capability() == "AVX512")


def onednn_linear(x: Tensor, W: Tensor, b: Tensor | None) -> Tensor:
    """x Wᵀ + b by oneDNN."""
    return torch.ops.mkldnn._linear_pointwise(x, W, b, "none", [], "")  # type: ignore[no-any-return]


def fused_adam_(
    parameters: list[Tensor],
    gradients: list[Tensor],
    first: list[Tensor],
    second: list[Tensor],
    rate: float,
    correction: float,
    decays: tuple[float, float],
    epsilon: float,
) -> None:
    """x - rate · m/(√v · correction + ε) for all parameters, in one pass over memory and without torch's compiler.

    Args:
        parameters: To change.
        gradients: By each of them.
        first: Averages m of the gradients.
        second: Averages v of their squares.
        rate: Divided by 1 - b1ᵗ.
        correction: 1/√(1 - b2ᵗ).
        decays: b1 and b2.
        epsilon: Smallest divisor.
    """
    b1, b2 = decays
    many = torch.full((), 1e9)  # steps, after which torch's own corrections are 1; ours are in ε and in the rate
    torch._fused_adam_(
        parameters, gradients, first, second, [], [many] * len(parameters), lr=rate / correction, beta1=b1, beta2=b2,
        weight_decay=0.0, eps=epsilon / correction, amsgrad=False, maximize=False,
    )  # fmt: skip
