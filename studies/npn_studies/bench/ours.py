"""Natural-parameter networks as contestants: by torch's tape, by the training loop's graph, by its fused step."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from npn_studies.bench.task import Task
from npn_studies.bench.ways import EAGER, GRAPH, Call, Contestant, Way, prediction, require, training_step
from torchnpn import likelihoods, nn, priors
from torchnpn.nn import MeanAndNoise, Sequential
from torchnpn.training import Batch, Engine, Objective, Recipe, choose_engine, constant, device_engine, row_loss

Posterior = Literal["mean_field", "tied"]
_PRIOR = priors.IsotropicGaussian(100.0)
_EPOCHS = 1000


class Network(NamedTuple):
    model: nn.Sequential
    likelihood: likelihoods.Likelihood


def npn(task: Task, way: Way, replicas: tuple[int, ...] = (), posterior: Posterior = "mean_field") -> Contestant:
    """Trained by torch's tape and optimizer."""
    network = _network(task, replicas, posterior)
    return Contestant(
        partial(_taped, task, network, way), partial(_asked, task, network, way), replicas[0] if replicas else 1
    )


def npn_on_cpu(task: Task, posterior: Posterior = "mean_field") -> Contestant:
    """Trained as `train` does on a CPU: by a chain without autograd, where there is one."""
    network = _network(task, (), posterior)
    return Contestant(partial(_chained, task, network), partial(_asked, task, network, EAGER))


def npn_on_device(
    task: Task, fused: bool | None, replicas: tuple[int, ...] = (), posterior: Posterior = "mean_field"
) -> Contestant:
    """Trained as `train` does on a GPU: the whole step in one CUDA graph, by autograd or by the fused kernels.

    Args:
        task: What to do.
        fused: Whether by the fused kernels; None for those where they apply.
        replicas: Leading dimensions, for networks trained at once.
        posterior: Of the weights.
    """
    require(GRAPH, task)
    network = _network(task, replicas, posterior)
    return Contestant(
        partial(_on_device, task, network, fused), partial(_asked, task, network, GRAPH), replicas[0] if replicas else 1
    )


def _network(task: Task, replicas: tuple[int, ...], posterior: Posterior = "mean_field") -> Network:
    size, generator = task.size, torch.Generator().manual_seed(0)
    common: dict[str, Any] = {"posterior": posterior, "replicas": replicas, "generator": generator}
    model = nn.mlp(size.sizes, activation=size.activation, **common)
    targets = size.sizes[-1]
    likelihood: likelihoods.Likelihood
    if size.has_classes:
        likelihood = likelihoods.ScaledSoftmax(targets)
    elif size.targets == "noise":
        model = Sequential(*list(model)[:-1], MeanAndNoise(size.sizes[-2], targets, **common))
        likelihood = likelihoods.HeteroscedasticGaussian(targets, replicas=replicas)
    else:
        likelihood = likelihoods.GaussianNoise(replicas=replicas)
    return Network(model.to(task.device), likelihood.to(task.device))


def _taped(task: Task, network: Network, way: Way) -> Call:
    model, likelihood = network
    share = 1 / len(task.y)

    def loss(x: Any, y: Any) -> Tensor:
        return row_loss(model, likelihood, Batch(x, y, None)).mean(-1).sum()

    def whole(x: Tensor, y: Tensor) -> Tensor:
        return likelihood.loss(model(x), y).mean(-1).sum() + share * priors.kl(model, _PRIOR).sum()

    parameters = [*model.parameters(), *likelihood.parameters()]
    if way.compiled:  # a compiler sees dense inputs, and the KL as a part of the loss
        return training_step(whole, parameters, task, way)
    return training_step(
        loss,
        parameters,
        task,
        way,
        after_backward=lambda: priors.add_kl_gradient_(model, _PRIOR, share),
        batch=lambda: task.data.take(task.rows)[:2],
    )


def _on_device(task: Task, network: Network, fused: bool | None) -> Call:
    return _steps(device_engine(network.model, task.data, network.likelihood, _PRIOR, _recipe(task), fused=fused))


def _chained(task: Task, network: Network) -> Call:
    return _steps(choose_engine(Objective(*network, _PRIOR, _recipe(task)), task.data, task.device))


def _recipe(task: Task) -> Recipe:
    return Recipe(epochs=_EPOCHS, batch_size=task.size.batch, kl_weight=constant(1.0))


def _steps(step: Engine) -> Call:
    """One step after the other, epoch after epoch."""
    runs = 0

    def run() -> None:
        nonlocal runs
        if runs % step.plan.steps == 0:
            step.begin(runs // step.plan.steps % _EPOCHS)
        runs += 1
        step.run()

    return run


def _asked(task: Task, network: Network, way: Way) -> Call:
    """Probabilities and the variance of the logits behind them; or mean and variance of the target."""
    model, likelihood = network
    model.eval()

    def answer(x: Any) -> tuple[Tensor, Tensor | None]:
        o = model(x)
        predicted = likelihood.predict(o)
        return predicted.mean, o.variance if task.size.has_classes else predicted.variance

    x = task.batch()[0] if way.compiled else task.data.take(task.rows).x
    return prediction(answer, x, task, way)
