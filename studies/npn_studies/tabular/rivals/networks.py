"""A deep ensemble (Lakshminarayanan et al. 2017): five networks of two layers in plain torch, trained side by side.

Adam, stopped where the rows that a member holds out say so. The last layer says mean and variance of a number, or of
the log of an amount, mean and overdispersion of a count, or a logit for each class.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from npn_studies.tabular.predictions import Counts, LogNormalMixture, NormalMixture
from npn_studies.tabular.rivals.interface import Answer, Inputs, Method, Predict, Standard, Task

Array = NDArray[Any]
MEMBERS, UNITS = 5, 128
_MOST_STEPS, _PATIENCE = 20_000, 1_500  # patience in steps, too
_CLIP = 5.0


def _fit(task: Task) -> Predict:
    generator = torch.Generator().manual_seed(1000 + task.seed)
    standard = Standard.of(task.inputs.X)
    x = torch.from_numpy(standard(task.inputs.X)).float()
    t, shift, scale = _targets(task)
    outputs = task.classes if task.kind == "classes" else 2
    network = _learnt(task.kind, x, t, shift, _drawn([x.shape[1], UNITS, UNITS, outputs], generator), generator)

    def predict(inputs: Inputs) -> Answer:
        rows = torch.from_numpy(standard(inputs.X)).float()
        with torch.no_grad():
            out = _forward(rows.expand(MEMBERS, -1, -1), network).double()
        return _answer(task.kind, out, shift, scale)

    return predict


def _targets(task: Task) -> tuple[Tensor, float, float]:
    """Targets in the network's units, and what these are."""
    if task.kind == "classes":
        return torch.from_numpy(task.y), 0.0, 1.0
    if task.kind == "counts":
        return torch.from_numpy(task.y).float(), float(np.log(max(task.y.mean(), 1e-3))), 1.0
    z = np.log(task.y) if task.kind == "amounts" else task.y
    shift, scale = float(z.mean()), float(z.std()) + 1e-12
    return torch.from_numpy((z - shift) / scale).float(), shift, scale


def _losses(kind: str, out: Tensor, t: Tensor, shift: float) -> Tensor:  # (members, rows, outputs) -> (members, rows)
    if kind == "classes":
        return functional.cross_entropy(out.movedim(-1, 1), t, reduction="none")
    if kind == "counts":
        log_mu, log_n = (out[..., 0] + shift).clamp(-20, 20), -out[..., 1].clamp(-8, 8)
        n, both = log_n.exp(), torch.logaddexp(log_n, log_mu)
        ways = torch.lgamma(t + n) - torch.lgamma(n) - torch.lgamma(t + 1)
        return n * (both - log_n) + t * (both - log_mu) - ways
    variance = functional.softplus(out[..., 1]) + 1e-6
    return 0.5 * (variance.log() + (t - out[..., 0]) ** 2 / variance)


def _answer(kind: str, out: Tensor, shift: float, scale: float) -> Answer:
    if kind == "classes":
        return np.asarray(out.softmax(-1).mean(0).numpy())
    first, second = out[..., 0].numpy(), out[..., 1].numpy()
    if kind == "counts":
        return Counts(np.exp(np.clip(first + shift, -20, 15)), np.exp(np.clip(second, -8, 8)))
    found = NormalMixture(first * scale + shift, np.sqrt(np.logaddexp(second, 0) + 1e-6) * scale)
    return LogNormalMixture(found) if kind == "amounts" else found


def _drawn(sizes: list[int], generator: torch.Generator) -> list[Tensor]:
    """Weights and biases of each layer, (members, in, out) and (members, 1, out), as torch draws them."""
    shapes = [shape for a, b in itertools.pairwise(sizes) for shape in ((a, b), (1, b))]
    bounds = [a**-0.5 for a in sizes[:-1] for _ in range(2)]
    drawn = [torch.rand((MEMBERS, *shape), generator=generator) for shape in shapes]
    return [((2 * u - 1) * bound).requires_grad_() for u, bound in zip(drawn, bounds, strict=True)]


def _forward(x: Tensor, network: list[Tensor]) -> Tensor:  # (members, rows, in) -> (members, rows, outputs)
    for k in range(0, len(network), 2):
        x = torch.baddbmm(network[k + 1], x, network[k])
        x = torch.relu(x) if k + 2 < len(network) else x
    return x


def _learnt(
    kind: str, x: Tensor, t: Tensor, shift: float, network: list[Tensor], generator: torch.Generator
) -> list[Tensor]:
    """Each member as it was when the rows that it holds out were most likely."""
    rows = len(x)
    held = min(max(rows // 8, 10), rows // 3)
    orders = torch.stack([torch.randperm(rows, generator=generator) for _ in range(MEMBERS)])
    held_out, train = orders[:, :held], orders[:, held:]
    batch = int(min(256, max(16, 2 ** round(np.log2(max(train.shape[1] / 10, 1))))))
    steps = -(-train.shape[1] // batch)
    patience = float(np.clip(_PATIENCE / steps, 10, 60))
    adam = torch.optim.Adam(network, lr=1e-3, weight_decay=1e-5)
    best, since = torch.full((MEMBERS,), torch.inf), torch.zeros(MEMBERS)
    kept = [w.detach().clone() for w in network]
    for _ in range(int(np.clip(_MOST_STEPS / steps, 40, 1000))):
        order = torch.stack([row[torch.randperm(len(row), generator=generator)] for row in train])
        for some in order.split(batch, dim=1):
            adam.zero_grad()
            _losses(kind, _forward(x[some], network), t[some], shift).mean(1).sum().backward()
            for w in network:  # of each member by itself
                assert w.grad is not None
                w.grad *= (_CLIP / w.grad.flatten(1).norm(dim=1).clamp_min(_CLIP)).view(-1, 1, 1)
            adam.step()
        with torch.no_grad():
            now = _losses(kind, _forward(x[held_out], network), t[held_out], shift).mean(1)
        better = now < best - 1e-4
        best, since = torch.where(better, now, best), torch.where(better, 0.0, since + 1)
        for mine, w in zip(kept, network, strict=True):
            mine[better] = w.detach()[better]
        if bool((since >= patience).all()):
            break
    return kept


DEEP_ENSEMBLE = Method("deep ensemble of 5", _fit)
