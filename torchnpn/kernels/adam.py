"""Adam on one tensor whose settings lie on the device, so that they can differ by replica and a graph can hold it."""

from __future__ import annotations

from torch import Tensor


def adam_(x: Tensor, gradient: Tensor, averages: Tensor, now: Tensor, b1: float, b2: float, epsilon: float) -> None:
    """One step of Adam on `x`, in place: x - rate · m/(√v · correction + ε).

    Args:
        x: The numbers, (replicas, …), or of any shape where there are none.
        gradient: Of the same shape.
        averages: (2, …) of the gradient and of its square.
        now: (replicas, 3) or (1, 3), with the rate, divided by 1 - b1ᵗ, and the correction 1/√(1 - b2ᵗ).
        b1: Decay of the first average.
        b2: Decay of the second.
        epsilon: Smallest divisor.
    """
    if x.is_cuda:
        from torchnpn.kernels.triton import update  # only here: it is not installed everywhere

        update.adam_(x, gradient, averages, now, b1, b2, epsilon)
        return
    shape = (-1, *[1] * (x.dim() - 1)) if len(now) > 1 else (1,) * x.dim()
    rate, correction = (now[:, i].view(shape) for i in range(2))
    first, second = averages
    first.mul_(b1).add_(gradient, alpha=1 - b1)
    second.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
    x.sub_(rate * first / (second.sqrt().mul_(correction).add_(epsilon)))
