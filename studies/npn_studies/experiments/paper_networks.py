"""Networks and training as the paper has them; what it leaves open is as in the authors' released code, or said here.

AdaDelta at a constant rate of 1, minibatches of 128, the prior N(0, 10⁴) on every weight. First means are uniform in
±√(6/(inputs + outputs)), first variances uniform up to a hundredth of that bound: facts of the released code. The
paper's objective has the whole KL divergence; the released code has none of it. Both are run, as `kl_weight` 1 and 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchnpn import nn
from torchnpn.likelihoods import Likelihood
from torchnpn.moments import Moments
from torchnpn.priors import IsotropicGaussian
from torchnpn.training import Recipe, adadelta, adam, constant, train

PRECISION = 1e-4  # λ_s of the prior N(0, 1/λ_s), in all experiments of the paper
BATCH, EPOCHS = 128, 2_000
EPSILON = 0.01  # variance of the target in KL(N(y, ε) ‖ N(o_m, o_s)); the paper says “a small value”
_SMALLEST = 1e-12  # of a first variance that is drawn uniformly from zero


def gaussian_network(
    sizes: Sequence[int],
    seed: int,
    replicas: tuple[int, ...] = (),
    dropout: float = 0.0,
    coordinates: Any = "usual",
) -> nn.Sequential:
    """A Gaussian NPN of ReLU units with the authors' first weights.

    By AdaDelta, whose steps do not depend on the scale of a number, the usual coordinates, mean and log standard
    deviation, are the paper's proxy parameters with k(x) = exp(x).
    """
    generator = torch.Generator().manual_seed(seed)
    options: dict[str, Any] = {"posterior": "mean_field", "coordinates": coordinates, "replicas": replicas}
    network = nn.mlp(sizes, dropout=dropout, generator=generator, **options)
    start_(network, generator)
    return network


@torch.no_grad()
def start_(network: nn.Sequential, generator: torch.Generator) -> None:
    """Give all weights first means and variances; means of biases are zero, as in the released code."""
    for layer in network:
        if isinstance(layer, nn.Linear):
            assert layer.bias is not None
            bound = math.sqrt(6 / (layer.in_features + layer.out_features))
            for name, reach in (("weight", bound), ("bias", 0.0)):
                parameter = getattr(layer, name)
                empty = torch.empty(parameter.shape)
                mean = empty.uniform_(-reach, reach, generator=generator).clone()
                variance = empty.uniform_(0, 0.01 * bound, generator=generator).clamp_min(_SMALLEST)
                options = {"out_dims": 1, "in_dims": parameter.in_dims, "coordinates": parameter.coordinates}
                setattr(layer, name, nn.RandomParameter("gaussian", Moments(mean, variance), **options))


def trained(
    network: nn.Sequential,
    data: tuple[Tensor, Tensor],
    likelihood: Likelihood,
    settings: dict[str, Any],
    seed: int,
    device: torch.device,
    subsets: Tensor | None = None,
) -> nn.Sequential:
    """The network after its epochs; `settings` has epochs, kl_weight, and perhaps another optimizer and its rate."""
    rows = len(data[0]) if subsets is None else subsets.shape[1]
    by_adam = settings.get("optimizer") == "adam"
    recipe = Recipe(
        epochs=settings["epochs"],
        batch_size=min(BATCH, rows),
        learning_rate=settings.get("learning_rate", 1.0),
        optimizer=adam if by_adam else adadelta,
        scheduler=None,
        kl_weight=constant(settings["kl_weight"]),
        seed=seed,
    )
    prior = IsotropicGaussian(PRECISION) if settings["kl_weight"] else None
    train(network, data, likelihood, prior, recipe, subsets=subsets, device=device)
    network.eval()
    return network
