"""How much a network doubts an image, in one number, and what such numbers are worth.

For an NPN all are in closed form, from the moments o_m, o_s of its outputs and the probabilities p:

| score                  | formula                                                                                  |
|------------------------|------------------------------------------------------------------------------------------|
| `entropy`              | -Σ p_k log p_k                                                                           |
| `output_variance`      | mean of o_s                                                                              |
| `probability_variance` | Σ Var p_k over the weights; the paper's sum of output variances is of this kind          |
| `information`          | ½ Σ Var p_k / p_k: to second order H(E p) - E H(p), what the label would tell of weights |

For members or samples `probability_variance` is their variance, summed over classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from npn_studies.experiments.digit_methods import Network, outputs
from npn_studies.experiments.digits import CLASSES
from npn_studies.experiments.tables import rounded
from torchnpn import maps, metrics, nn
from torchnpn.likelihoods import ScaledSoftmax
from torchnpn.moments import Moments

GROUPS = 9  # as in the paper's figure
COVERAGE = np.linspace(0.01, 1.0, 100)  # shares of images at which a risk is stored


class Told(NamedTuple):
    """What networks say of images, and how much they doubt it.

    Attributes:
        probs: (networks, rows, classes).
        scores: (networks, rows) by name; more is more doubt.
    """

    probs: Tensor
    scores: dict[str, Tensor]


Teller = Callable[[Tensor], Told]


def entropy(probs: Tensor) -> Tensor:
    """-Σ p log p, in float64: doubt of 1e-9 must still be less than doubt of 2e-9."""
    p = probs.double()
    return -torch.xlogy(p, p).sum(-1)


def of_method(network: Network) -> Teller:
    """The scores that any method has."""

    def told(x: Tensor) -> Told:
        answer = network(x)
        scores = {"entropy": entropy(answer.probs)}
        return Told(
            answer.probs, scores | ({} if answer.variance is None else {"probability_variance": answer.variance})
        )

    return told


def of_npn(network: nn.Sequential) -> Teller:
    """All scores of a Gaussian NPN."""
    likelihood = ScaledSoftmax(CLASSES)

    def told(x: Tensor) -> Told:
        o_m, o_s = outputs(network, x)
        assert o_s is not None
        o = Moments(o_m.double(), o_s.double())  # no probability underflows
        probs, spread = likelihood.predict(o).probs, likelihood.variance_parts(o).epistemic
        scores = {
            "entropy": entropy(probs),
            "output_variance": o_s.mean(-1),
            "probability_variance": spread.sum(-1),
            "information": 0.5 * (spread / probs).sum(-1),
        }
        return Told(probs, scores)

    return told


def without_variance(network: nn.Sequential) -> Teller:
    """The same network with every weight at its mean: a point network, which has no score but the entropy."""

    def at_means(x: Tensor) -> Moments:
        a = Moments(x)
        for module in network:
            if isinstance(module, nn.Linear):
                bias = None if module.bias is None else Moments(module.bias.moments.mean)
                a = maps.linear(a, Moments(module.weight.moments.mean), bias)
            else:
                a = module(a)
        return a

    def told(x: Tensor) -> Told:
        probs = torch.softmax(outputs(at_means, x).mean.double(), -1)
        return Told(probs, {"entropy": entropy(probs)})

    return told


def judged_score(correct: Tensor, inside: Tensor, outside: dict[str, Tensor]) -> dict[str, Any]:
    """What a score is worth, for each network.

    Args:
        correct: (networks, rows) whether the answers to test images are right.
        inside: (networks, rows) doubt about these images.
        outside: (networks, other rows) doubt about images of other kinds, by their name.

    Returns:
        Accuracy in nine groups by rising doubt with standard errors, the area under the risk-coverage curve, that curve
        at `COVERAGE` (mean over networks), and the AUROC against each other kind.
    """
    right, doubt = correct.double().cpu().numpy(), inside.double().cpu().numpy()
    groups = [metrics.accuracy_by_uncertainty(*pair, GROUPS) for pair in zip(right, doubt, strict=True)]
    curves = [metrics.risk_coverage(*pair) for pair in zip(right, doubt, strict=True)]
    at = np.maximum(np.rint(COVERAGE * right.shape[1]).astype(int), 1) - 1
    return {
        "accuracy": [_listed(group.accuracy) for group in groups],
        "accuracy_error": [_listed(group.error) for group in groups],
        "area": [rounded(curve.area) for curve in curves],
        "risk": _listed(np.mean([curve.risk[at] for curve in curves], axis=0)),
        "auroc": {name: aurocs(inside, far) for name, far in outside.items()},
    }


def aurocs(inside: Tensor, outside: Tensor) -> list[float]:
    """Of each network."""
    near, far = inside.double().cpu().numpy(), outside.double().cpu().numpy()
    return [rounded(metrics.ood_auroc(*pair)) for pair in zip(near, far, strict=True)]


def _listed(values: Any) -> list[float]:
    return [rounded(float(value)) for value in values]
