"""The networks to compare with: plain, with dropout, in an ensemble, with sampled weights; each as fast as we know."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from npn_studies.bench.task import Task
from npn_studies.bench.ways import COMPILED_GRAPH, EAGER, Call, Contestant, Way, prediction, training_step

_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}
_PRIOR_PRECISION = 100.0


def plain(task: Task, way: Way) -> Contestant:
    """A point network; its answer has no uncertainty."""
    model = _network(task, nn.Linear)
    return _contestant(task, way, model, lambda x, y: task.loss(model(x), y), lambda x: task.answer(model(x)))


def dropout(task: Task, samples: int) -> Contestant:
    """MC dropout (Gal and Ghahramani 2016): masks in prediction too; the layer before the first mask is run once."""
    model = _network(task, nn.Linear, rate=0.5)
    first, rest = model[:2], model[2:]

    def answer(x: Tensor) -> tuple[Tensor, Tensor]:
        a = first(x)
        return _spread(task.answer(rest(a.expand(samples, *a.shape))))

    return _contestant(task, _best(task), model, lambda x, y: task.loss(model(x), y), answer)


def ensemble(task: Task, members: int) -> Contestant:
    """Plain networks with different initial weights (Lakshminarayanan et al. 2017), side by side in every product."""
    model = _network(task, partial(MemberLinear, members))
    return _contestant(
        task,
        _best(task),
        model,
        lambda x, y: members * task.loss(model(x), y),
        lambda x: _spread(task.answer(model(x))),
    )


def bayes_by_backprop(task: Task, samples: int) -> Contestant:
    """Bayes by backprop (Blundell et al. 2015): a draw of all weights for each pass, `samples` passes in prediction."""
    model = _network(task, SampledLinear)
    layers = [layer for layer in model if isinstance(layer, SampledLinear)]

    def loss(x: Tensor, y: Tensor) -> Tensor:
        divergence = sum((layer.divergence() for layer in layers), torch.zeros((), device=x.device))
        return task.loss(model(x), y) + divergence / len(task.y)

    def answer(x: Tensor) -> tuple[Tensor, Tensor]:
        return _spread(torch.stack([task.answer(model(x)) for _ in range(samples)]))

    return _contestant(task, _best(task), model, loss, answer)


class Masks(nn.Module):
    """Dropout, in training and in prediction."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.rate)


class MemberLinear(nn.Module):
    """One layer of each member: (members, batch, in) to (members, batch, out)."""

    def __init__(self, members: int, n_in: int, n_out: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(n_in)
        self.weight = nn.Parameter(torch.empty(members, n_in, n_out).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, 1, n_out).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x.expand(len(self.weight), *x.shape[-2:]), self.weight)


class SampledLinear(nn.Module):
    """A linear layer with the weights mean + exp(log_std) · ε, drawn anew in every pass."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        scale = 1 / math.sqrt(n_in)
        self.mean = nn.Parameter(scale * torch.randn(n_out, n_in + 1))  # the bias is the last column
        self.log_std = nn.Parameter(torch.full_like(self.mean, math.log(0.1 * scale)))

    def forward(self, x: Tensor) -> Tensor:
        drawn = torch.addcmul(self.mean, self.log_std.exp(), torch.randn_like(self.mean))
        return functional.linear(x, drawn[:, :-1], drawn[:, -1])

    def divergence(self) -> Tensor:
        """KL from N(0, 1/λ), up to a constant: Σ ½ λ (m² + s) - log std."""
        second = self.mean**2 + torch.exp(2 * self.log_std)
        return (0.5 * _PRIOR_PRECISION * second - self.log_std).sum()


def _network(task: Task, linear: Callable[[int, int], nn.Module], rate: float = 0.0) -> nn.Sequential:
    """Linear layers with the task's activation between them, and dropout where it has a rate."""
    layers: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for n_in, n_out in itertools.pairwise(task.size.sizes):
            hidden = [_ACTIVATIONS[task.size.activation](), *([Masks(rate)] if rate else [])]
            layers += [linear(n_in, n_out), *hidden]
    return nn.Sequential(*layers[: -len(hidden)]).to(task.device)


def _contestant(
    task: Task,
    way: Way,
    model: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    answer: Callable[[Tensor], object],
) -> Contestant:
    def asked() -> Call:
        model.eval()
        return prediction(answer, task.batch()[0], task, way)

    return Contestant(lambda: training_step(loss, model.parameters(), task, way), asked)


def _best(task: Task) -> Way:
    return COMPILED_GRAPH if task.gpu else EAGER


def _spread(answers: Tensor) -> tuple[Tensor, Tensor]:  # (samples, batch, outputs) -> two of (batch, outputs)
    """Mean and variance over samples."""
    variance, mean = torch.var_mean(answers, 0)
    return mean, variance
