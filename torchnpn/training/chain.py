"""A training step of a Gaussian chain: the algorithm, over operations of `kernels.cpu` or `kernels.triton.chain`.

Gather the rows, go upwards through the layers, take the loss, go downwards with its gradient, and update the weights of
each layer on the way. On a CPU that is `training.cpu_chain`, on a CUDA device `TritonChainSteps`. The formulas are
those of the maps and of their gradients, and tests hold them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchnpn._cuda import SideStreams
from torchnpn._torch import has_hooks
from torchnpn.kernels import has_triton
from torchnpn.likelihoods import LOG_VARIANCE, GaussianNoise, HeteroscedasticGaussian, ScaledSigmoids, ScaledSoftmax
from torchnpn.moments import Moments
from torchnpn.nn import ChainLayer, Linear, RandomParameter, Sequential, chain_of
from torchnpn.priors import EmpiricalBayes, IsotropicGaussian, Prior
from torchnpn.training.adversarial import radius_per_replica, step_along
from torchnpn.training.data import Rows
from torchnpn.training.distributed import ALONE, Processes
from torchnpn.training.epoch import DevicePlan
from torchnpn.training.optimizer_state import Averages, words_of
from torchnpn.training.recipe import Recipe
from torchnpn.training.tape import Objective, RuleUpdate, Steps, Update


class ChainSteps(Steps):
    """The algorithm, over operations on a CPU or a CUDA device."""

    operations: Any  # with the signals, outputs and gradients that they pass on to each other
    radius: Tensor | None  # how far rows are moved against their targets, to multiply their gradient

    def sweep(self) -> None:
        """A step up to its gradients: against an adversary the rows are asked once without dropout, and moved."""
        ops, radius = self.operations, self.radius
        a = ops.gather(dropout=radius is None)
        if radius is not None:
            a = ops.moved(a, step_along(ops.row_gradient(self._up_and_down(a, learning=False), a), radius))
        self._up_and_down(a, learning=True)

    def _up_and_down(self, a: Any, learning: bool) -> Any:
        """Through the layers from the rows to the loss, and back; the gradient by the output of the first layer."""
        ops, inputs, outputs = self.operations, [a], []
        for i in range(ops.hidden):
            outputs.append(ops.forward(i, inputs[-1], dropout=learning))
            inputs.append(outputs[-1].a)
        g = ops.loss(inputs[-1], learning)
        for i in reversed(range(len(inputs))):
            above = g
            if i:
                g = ops.input_gradient(i, above, inputs[i], outputs[i - 1], dropout=learning)
            if learning:
                ops.update_(i, above, inputs[i])
        return g


def prior_setting(prior: Prior | None) -> float | str | None:
    """A prior as the operations take it."""
    return float(prior.precision) if isinstance(prior, IsotropicGaussian) else None if prior is None else "empirical"


def why_not_trained(model: nn.Module, layers: Sequence[nn.Module], prior: Prior | None) -> str | None:
    """Why no such engine trains the weights of a chain of layers, with this prior."""
    if len(set(layers)) < len(layers):
        return "a layer is there twice"
    if not all(p.requires_grad and p.dtype == torch.float32 for p in model.parameters()):
        return "some parameters are frozen, or not float32"
    if any(isinstance(one, RandomParameter) and one.coordinates != "usual" for one in model.modules()):
        return "weights are learnt in coordinates of their own"
    known = type(prior) in (type(None), IsotropicGaussian, EmpiricalBayes)
    return None if known else f"the prior is {type(prior).__name__}"


def why_not_triton(
    model: nn.Module,
    rows: Rows,
    prior: Prior | None,
    recipe: Recipe,
    on_device: bool,
    processes: Processes = ALONE,
) -> str | None:
    """Why a network is not trained by `TritonChainSteps`; None where it is. `on_device` says that there is a GPU."""
    if processes.connected:
        return "several processes sum their gradients before the update, and its kernels do both at once"
    dense = rows.x.mean if isinstance(rows.x, Moments) else rows.x
    if not on_device or not has_triton():
        return "there is no CUDA device, or no Triton"
    if isinstance(chain := _fused_chain(model), str):
        return (
            "the network is not made of Gaussian Linear layers with ReLU, Sigmoid, Tanh and Dropout between them: "
            f"{chain}"
        )
    if (
        not isinstance(rows.y, Tensor)
        or not isinstance(dense, Tensor)
        or dense.dtype != torch.float32
        or dense.dim() != 2
    ):
        return "inputs are not a dense float32 matrix, or targets are sparse"
    if recipe.rule is None:
        return "the optimizer is neither adam nor adadelta, or the scheduler is not cosine or None"
    if recipe.clip_norm is not None or recipe.compile:
        return "the recipe asks for clipping or compiling"
    return why_not_trained(model, [layer.linear for layer in chain.layers], prior)


class _FusedChain(NamedTuple):
    """The layers of a network that Triton trains."""

    dropout: float  # on the inputs
    hidden: list[ChainLayer]
    heads: list[ChainLayer]  # side by side at the end

    @property
    def layers(self) -> list[ChainLayer]:
        return [*self.hidden, *self.heads]


def _fused_chain(model: nn.Module) -> _FusedChain | str:
    """The layers of a network, with no dropout at the end; else why not."""
    if type(model) is not Sequential or has_hooks(model):
        return "it is not a Sequential, or a hook listens to it"
    chain = chain_of([*model])
    if isinstance(chain, str):
        return chain
    *hidden, first = chain.layers
    if first.dropout:
        return "it ends with Dropout"
    if chain.beside and not hidden:
        return "MeanAndNoise has no layer below it"
    return _FusedChain(chain.dropout, hidden, [first, *chain.beside])


class TritonChainSteps(ChainSteps):
    """Steps of a chain on a CUDA device; the likelihood's own parameters, if any, learn by autograd."""

    def __init__(self, objective: Objective, plan: DevicePlan) -> None:
        from torchnpn.kernels import triton  # only here: it is not installed everywhere

        super().__init__(objective, plan)
        model, likelihood, prior, recipe = objective
        self._triton, self.precision = triton, triton.PRECISIONS[recipe.precision]
        chain, rule = _fused_chain(model), recipe.rule
        assert isinstance(chain, _FusedChain) and rule is not None
        self.on_device, self.layers = plan, chain.layers
        self.parameters = [*objective.learnt.parameters()]
        x = plan.rows.x if isinstance(plan.rows.x, Moments) else Moments(plan.rows.x)
        hidden, heads = (
            [triton.Layer(*_flattened(one.linear, plan.replicas), one.activation, one.dropout) for one in layers]
            for layers in (chain.hidden, chain.heads)
        )
        plain, few = len(heads) == 1 and heads[0].activation == "none", heads[0].b[0].shape[-1] <= triton.MOST_CLASSES
        of_classes = type(likelihood) in (ScaledSoftmax, ScaledSigmoids) and plain and few
        labels, sigmoids = plan.rows.y if of_classes else None, type(likelihood) is ScaledSigmoids
        self.own = RuleUpdate([p for p in likelihood.parameters() if p.requires_grad], plan.now, rule)
        self.side = SideStreams(plan.device)
        self.operations = self.chain = triton.TritonChain(
            (x.mean, x.variance), plan, chain.dropout, hidden, heads, prior_setting(prior),
            rule, self.precision, labels, sigmoids, self._loss, self.side,
        )  # fmt: skip
        self.radius = radius_per_replica(recipe.adversarial, plan.replicas, x.mean)
        self.update = Update(self.side.join, self._averages, words_of(rule))  # the kernels of the chain take the step

    def begin(self) -> None:
        self.chain.begin()

    def gradient(self) -> None:
        self.sweep()

    def _loss(self, outputs: Sequence[Any], learning: bool) -> Sequence[Any]:
        """Gradients by the outputs of each head; the likelihood's own parameters take a step beside what follows."""
        likelihood, y = self.likelihood, self.on_device.rows.y
        noisy = type(likelihood) in (GaussianNoise, HeteroscedasticGaussian) and y.dtype == torch.float32
        if noisy and y.dim() == 2 and y.shape[-1] <= self._triton.MOST_TARGETS:
            found, by_own = self._noise_loss(likelihood, outputs, learning)  # type: ignore[arg-type]
        else:
            found, by_own = self._autograd_loss(outputs, learning)
        if learning and by_own:
            self.side(self.own.apply, by_own)
        return found

    def _noise_loss(
        self, likelihood: GaussianNoise, outputs: Sequence[Any], learning: bool
    ) -> tuple[Sequence[Any], Sequence[Tensor]]:
        plan, log_noise = self.on_device, likelihood.log_noise
        following = plan.following if learning else torch.empty_like(plan.following)
        of_replicas = log_noise.detach().view(plan.replicas, -1)
        found, by_noise = self._triton.noise_loss(
            outputs, plan.rows.y, of_replicas, plan, following, likelihood.elbo, LOG_VARIANCE, self.precision.variance,
            self.chain.head_squares,
        )  # fmt: skip
        return found, [by_noise.view_as(log_noise)] if log_noise.requires_grad else []

    def _autograd_loss(self, outputs: Sequence[Any], learning: bool) -> tuple[Sequence[Any], Sequence[Tensor]]:
        plan, own = self.on_device, self.own
        with torch.enable_grad():
            widths = [one.linear.out_features for one in self.layers[-len(outputs) :]]
            parts = [
                [o[k][..., :width].detach().requires_grad_() for o, width in zip(outputs, widths, strict=True)]
                for k in range(2)
            ]
            m, s = (torch.cat(of_heads, -1) for of_heads in parts)
            rows = self.likelihood.loss(Moments(m, s), plan.rows.y[plan.part(plan.order)]) * plan.part(plan.share)
            leaves = [*parts[0], *parts[1], *own.parameters]
            found = torch.autograd.grad(rows.sum(), leaves, materialize_grads=True)
        if learning:
            plan.note(rows.detach())
        heads = len(outputs)
        by_heads = zip(found[:heads], found[heads : 2 * heads], strict=True)
        gradients = [self._triton.Gradient(*(self._triton.pad(g).contiguous() for g in both)) for both in by_heads]
        return gradients, found[2 * heads :]

    def _averages(self) -> list[Averages]:
        found = self.own.averages()
        for layer, both in zip(self.layers, self.chain.averages(), strict=True):
            for parameter, (first, second) in zip(_tensors(layer.linear), both, strict=True):
                found.append(Averages(parameter, first.view_as(parameter), second.view_as(parameter)))
        return found


def _tensors(linear: Linear) -> list[Tensor]:
    """Mean and log standard deviation of the weights, then of the biases."""
    assert linear.bias is not None
    return [*linear.weight.free, *linear.bias.free]


def _flattened(linear: Linear, replicas: int) -> tuple[list[Tensor], tuple[Tensor, Tensor]]:
    """Weights and biases, with one leading dimension of replicas and, if tied, vectors of logarithms."""
    assert linear.bias is not None
    mean, *spread = (p.detach() for p in linear.weight.free)
    vectors = len(spread) > 1
    W = [mean.view(replicas, *mean.shape[-2:])]
    W += [log.view(replicas, *((-1,) if vectors else mean.shape[-2:])) for log in spread]
    b_m, b_log_std = (p.detach().view(replicas, -1) for p in linear.bias.free)
    return W, (b_m, b_log_std)
