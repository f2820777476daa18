"""Backward passes that cannot be differentiated again, and say so in words."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from torchnpn._torch import refused_when_differentiated


def once_differentiable(what: str, advice: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """torch's decorator of that name, with an error that names the operation and says what to do instead."""
    message = f"{what} has no second derivatives. {advice}"

    def decorate(backward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(backward)
        def wrapper(ctx: Any, *gradients: Any) -> Any:
            with torch.no_grad():
                outputs = backward(ctx, *gradients)
            if not torch.is_grad_enabled():
                return outputs
            return refused_when_differentiated(message, outputs)

        return wrapper

    return decorate
