"""What a second derivative through a fused kernel is told."""

from __future__ import annotations

from torchnpn.maps.once import once_differentiable

fused_once = once_differentiable(
    "A fused GPU kernel",
    "Convert the network and its inputs with .double(): in float64 the plain maps are used, which have them.",
)
