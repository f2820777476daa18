"""Every private API of torch that the package uses, each behind a name that says what it is for.

A new version of torch can break this file and no other; `tests/test_torch_private.py` has a test for each function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree

F = TypeVar("F", bound=Callable[..., Any])


def is_transformed(tensor: Tensor) -> bool:
    """Whether `torch.func` (grad, vmap, …) has wrapped a tensor: then kernels cannot have its memory."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def has_values(tensor: Tensor) -> bool:
    """Whether there are values to look at: none while tracing, and none inside `torch.func.vmap`."""
    if torch._C._len_torch_dispatch_stack():  # fake tensors, `make_fx`, and what stands for a device in tests
        return False
    while torch._C._functorch.is_gradtrackingtensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return not torch._C._functorch.is_batchedtensor(tensor)


def has_hooks(module: nn.Module) -> bool:
    """Whether somebody listens to the calls of a module itself, so that it has to be called."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def version(tensor: Tensor) -> int:
    """How often a tensor was changed in place, as far as torch counts."""
    return tensor._version


def register_pytree(
    cls: type, name: str, flatten: Callable[[Any], tuple[dict[str, Any], Any]], build: Callable[[list[Any], Any], Any]
) -> None:
    """Let torch's transforms take a class apart, into tensors by attribute and the rest, and `build` it again.

    `name` is what a file of `torch.export` calls it.
    """

    def with_keys(instance: Any) -> tuple[list[tuple[Any, Any]], Any]:
        leaves, rest = flatten(instance)
        return [(_pytree.GetAttrKey(key), leaf) for key, leaf in leaves.items()], rest

    def plain(instance: Any) -> tuple[list[Any], Any]:
        leaves, rest = flatten(instance)
        return list(leaves.values()), rest

    _pytree.register_pytree_node(
        cls, plain, lambda leaves, rest: build(list(leaves), rest), flatten_with_keys_fn=with_keys,
        serialized_type_name=name,
    )  # fmt: skip


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
