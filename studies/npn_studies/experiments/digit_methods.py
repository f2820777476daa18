"""The methods that learn digits, all alike: networks with settings of their own, side by side, and their answers.

A method is given one dictionary of settings for each network. Those that differ only in numbers which a fit can take
for each network are trained at once; the others in groups, one after the other.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from npn_studies import baselines
from npn_studies.baselines import Classes, PredictedClasses
from npn_studies.baselines.dropout import FittedDropout
from npn_studies.bench.plan import fast_products
from npn_studies.experiments.digits import CLASSES, Images
from torchnpn import nn
from torchnpn.likelihoods import ScaledSoftmax
from torchnpn.moments import Moments
from torchnpn.priors import EmpiricalBayes, IsotropicGaussian, Prior
from torchnpn.training import Recipe, constant, train

Setting = dict[str, Any]
_ROWS = 2_000  # predicted at once
_KEPT = 3  # trainings of a kind
_ASKED = "masks", "samples"  # settings of how a network is asked
T = TypeVar("T")


class Work(NamedTuple):
    """What networks are trained on.

    Attributes:
        images: All that there are.
        subsets: (networks, n) the rows that each may see; None: all see all.
        seed: Of initial weights, orders of rows and draws.
        device: Where.
        again: Whether networks that this process has just trained in the same way are taken as they are.
    """

    images: Images
    subsets: Tensor | None
    seed: int
    device: torch.device
    again: bool = False

    @property
    def rows(self) -> int:
        """How many each network sees."""
        return len(self.images.y) if self.subsets is None else self.subsets.shape[1]

    def only(self, networks: Sequence[int]) -> Work:
        """The work of these networks."""
        return self if self.subsets is None else self._replace(subsets=self.subsets[list(networks)])


class Answer(NamedTuple):
    """What networks say of images.

    Attributes:
        probs: (networks, rows, classes).
        variance: (networks, rows) a number that grows with the doubt about the weights: for an NPN the mean variance
            of the outputs, for a method with samples or members the summed variance of the probabilities over them;
            None for a point network.
    """

    probs: Tensor
    variance: Tensor | None


Network = Callable[[Tensor], Answer]  # images (rows, 784)
Fit = Callable[[Work, Sequence[Setting]], Network]


class Each(Protocol):
    """A setting by its name, one number for each network; those without it have the default."""

    def __call__(self, name: str, default: float | None = None) -> baselines.Number: ...


class Method(NamedTuple):
    """One way to learn digits.

    Attributes:
        label: For tables.
        shared: Names of the settings that networks trained at once have in common.
        fit: Trains as many networks as there are settings, alike in the shared ones.
    """

    label: str
    shared: tuple[str, ...]
    fit: Fit

    def answers(self, work: Work, settings: Sequence[Setting], *asked: Tensor) -> list[Answer]:
        """Train networks with these settings, and ask them about images; one answer for each of `asked`."""
        found: list[dict[int, Answer]] = [{} for _ in asked]
        for members in self._groups(settings):
            network = self.fit(work.only(members), [settings[i] for i in members])
            for at, x in enumerate(asked):
                answer = network(x)
                for k, i in enumerate(members):
                    variance = None if answer.variance is None else answer.variance[k]
                    found[at][i] = Answer(answer.probs[k], variance)
        return [_stacked([parts[i] for i in range(len(settings))]) for parts in found]

    def _groups(self, settings: Sequence[Setting]) -> list[list[int]]:
        def common(i: int) -> str:
            return str([settings[i].get(name) for name in self.shared])

        return [list(group) for _, group in itertools.groupby(sorted(range(len(settings)), key=common), common)]


def _stacked(answers: Sequence[Answer]) -> Answer:
    variances = [answer.variance for answer in answers if answer.variance is not None]
    return Answer(torch.stack([answer.probs for answer in answers]), torch.stack(variances) if variances else None)


def kept(train: Callable[[Work, Sequence[Setting]], T]) -> Callable[[Work, Sequence[Setting]], T]:
    """`train`, whose last results are kept for work that may take them again.

    `mnist_variance` asks networks of `mnist`, and a search asks the same ones with masks and without: how a network is
    asked is no part of its training.
    """
    found: dict[str, tuple[Work, T]] = {}

    def trained(work: Work, settings: Sequence[Setting]) -> T:
        told = [{key: value for key, value in one.items() if key not in _ASKED} for one in settings]
        rows = None if work.subsets is None else work.subsets.tolist()
        key = json.dumps([told, work.seed, str(work.device), work.images.x.data_ptr(), len(work.images.y), rows])
        if not (work.again and key in found):
            found[key] = work, train(work, settings)  # the work is kept too, so that no other lies at its address
        while len(found) > _KEPT:
            del found[next(iter(found))]
        return found[key][1]

    return trained


def mixed(fit: Fit) -> Fit:
    """The mixture of networks that differ in first weights, order of rows and draws: one answer of all."""

    def mixture(work: Work, settings: Sequence[Setting]) -> Network:
        networks = fit(work, settings)

        def answer(x: Tensor) -> Answer:
            members = networks(x).probs
            return Answer(members.mean(0, keepdim=True), members.var(0, correction=0).sum(-1)[None])

        return answer

    return mixture


# Ours -----------------------------------------------------------------------------------------------------------------


def gaussian_npn(work: Work, settings: Sequence[Setting]) -> Network:
    """Gaussian weights, ReLU, sampled dropout; the prior is N(0, 1/precision), or learnt where that is None.

    With the setting `masks`, units are masked when the network is asked, too, in closed form.
    """
    network = gaussian_network(work, settings)
    return asked_in_parts(nn.with_masks(network) if settings[0].get("masks") else network, ScaledSoftmax(CLASSES))


@kept
def gaussian_network(work: Work, settings: Sequence[Setting]) -> nn.Sequential:
    """The trained network behind `gaussian_npn`."""
    shared = settings[0]
    layers = nn.mlp(
        [work.images.x.shape[1], *shared["hidden"], CLASSES],
        dropout=shared["rate"],
        replicas=(len(settings),),
        generator=torch.Generator().manual_seed(work.seed),
    )
    _spread_(layers, settings)
    return _trained(nn.Sequential(nn.Dropout(shared["input_rate"]), *layers), work, settings)


@torch.no_grad()
def _spread_(layers: nn.Sequential, settings: Sequence[Setting]) -> None:
    """Start with weights of the std initial_std / √inputs, for those networks whose settings have it."""
    for layer in layers:
        if isinstance(layer, nn.Linear):
            for log_std, one in zip(layer.weight.free[1], settings, strict=True):
                if "initial_std" in one:
                    log_std.fill_(math.log(one["initial_std"] / math.sqrt(layer.in_features)))


def gamma_npn(work: Work, settings: Sequence[Setting]) -> Network:
    """Gamma weights, all positive, and neurons exp(-o): Theorem 1 with r = 0, q = -1, over the inputs (x, 1 - x).

    A unit exp(-Σ w a) is on where all that it weighs is absent. Two layers of them rise or fall with a pixel as they
    need to; the paper's 1 - exp(-τ o) can only rise, and sees little more than the amount of ink. A softmax needs
    differences only, so a positive last layer restricts nothing. `gains` are the initial sums of a row of weights.
    """
    shared = settings[0]
    generator = torch.Generator().manual_seed(work.seed)
    modules: list[torch.nn.Module] = [nn.Complement(), nn.Dropout(shared["input_rate"])]
    sizes = itertools.pairwise([2 * work.images.x.shape[1], *shared["hidden"], CLASSES])
    for (n_in, n_out), gain in zip(sizes, shared["gains"], strict=True):
        linear = nn.Linear(n_in, n_out, family="gamma", gain=gain, replicas=(len(settings),), generator=generator)
        modules += [linear, nn.Saturating("gamma", tau=1.0, r=0.0, q=-1.0), nn.Dropout(shared["rate"])]
    return asked_in_parts(_trained(nn.Sequential(*modules[:-2]), work, settings), ScaledSoftmax(CLASSES))


def _trained(network: nn.Sequential, work: Work, settings: Sequence[Setting]) -> nn.Sequential:
    """By the cheap softmax of uncertain outputs and the KL to the prior."""
    shared = settings[0]
    recipe = Recipe(
        epochs=shared["epochs"],
        batch_size=min(shared["batch_size"], work.rows),
        learning_rate=[one["learning_rate"] for one in settings],
        kl_weight=constant(np.array([one["kl_weight"] for one in settings])),
        adversarial=[one.get("adversarial", 0.0) for one in settings],
        seed=work.seed,
    )
    precision = shared["prior_precision"]
    prior: Prior | None = EmpiricalBayes() if precision is None else IsotropicGaussian(precision)
    if not any(one["kl_weight"] for one in settings):
        prior = None
    likelihood = ScaledSoftmax(CLASSES)
    train(network, work.images, likelihood, prior, recipe, subsets=work.subsets, device=work.device)
    return network


def asked_in_parts(network: nn.Sequential, likelihood: ScaledSoftmax) -> Network:
    """A trained network as a function of images."""

    def answer(x: Tensor) -> Answer:
        o = outputs(network, x)
        assert o.variance is not None
        return Answer(likelihood.predict(o).probs, o.variance.mean(-1))

    return answer


@torch.no_grad()
def outputs(network: Callable[[Tensor], Moments], x: Tensor) -> Moments:  # (rows, 784) -> (networks, rows, classes)
    """What a network makes of images, some rows at a time; without a variance where it has none."""
    means, variances = zip(*(network(part) for part in x.split(_ROWS)), strict=True)
    return Moments(torch.cat(means, -2), None if variances[0] is None else torch.cat(variances, -2))


# Theirs ---------------------------------------------------------------------------------------------------------------


def dropout(work: Work, settings: Sequence[Setting]) -> Network:
    """A dropout network, asked once with the mean of its masks."""
    return _asked(dropout_network(work, settings), work)


def mc_dropout(work: Work, settings: Sequence[Setting]) -> Network:
    """A dropout network, asked under random masks."""
    return _asked(dropout_network(work, settings).sampled(settings[0]["samples"]), work)


@kept
def dropout_network(work: Work, settings: Sequence[Setting]) -> FittedDropout:
    """The trained network behind `dropout` and `mc_dropout`."""

    def make(common: baselines.Settings, each: Each) -> baselines.DropoutNetwork:
        rates = each("rate"), each("input_rate")
        return baselines.DropoutNetwork(
            Classes(CLASSES), common, *rates, each("prior_precision"), each("adversarial", 0.0)
        )

    fitted: FittedDropout = _fitted(work, settings, make)
    return fitted


def bayes_by_backprop(work: Work, settings: Sequence[Setting]) -> Network:
    """Weights drawn in every step, with a Gaussian prior or a scale mixture."""
    shared = settings[0]

    def prior(each: Each) -> baselines.GaussianPrior | baselines.ScaleMixturePrior:
        std = each("prior_std")
        return baselines.GaussianPrior(std) if shared["prior"] == "gaussian" else baselines.ScaleMixturePrior(wide=std)

    return _baseline(
        work,
        settings,
        lambda settings, each: baselines.BayesByBackprop(
            Classes(CLASSES),
            settings,
            prior(each),
            each("kl_weight"),
            each("initial_std"),
            shared["samples"],
            each("adversarial", 0.0),
        ),
    )


def dark_knowledge(work: Work, settings: Sequence[Setting]) -> Network:
    """A student of teachers drawn by SGLD."""
    return _baseline(
        work,
        settings,
        lambda settings, each: baselines.DarkKnowledge(
            Classes(CLASSES),
            settings,
            each("step_size"),
            each("prior_precision"),
            each("input_noise"),
            adversarial=each("adversarial", 0.0),
        ),
    )


def ensemble(work: Work, settings: Sequence[Setting]) -> Network:
    """Five plain networks."""
    return _baseline(work, settings, lambda settings, each: baselines.DeepEnsemble(Classes(CLASSES), settings))


def _baseline(
    work: Work,
    settings: Sequence[Setting],
    make: Callable[[baselines.Settings, Each], baselines.Baseline],
) -> Network:
    """A baseline with a replica for each setting, as a function of images."""
    return _asked(_fitted(work, settings, make), work)


def _fitted(work: Work, settings: Sequence[Setting], make: Callable[[baselines.Settings, Each], Any]) -> Any:
    shared, count = settings[0], len(settings)

    def each(name: str, default: float | None = None) -> baselines.Number:
        return tuple(float(one[name] if default is None else one.get(name, default)) for one in settings)

    common = baselines.Settings(
        hidden=tuple(shared["hidden"]),
        epochs=shared["epochs"],
        batch_size=shared["batch_size"],
        learning_rate=each("learning_rate"),
        schedule="cosine",
        seed=work.seed,
        device=str(work.device),
    )
    x, y = work.images
    if work.subsets is None:
        x, y = x.expand(count, *x.shape), y.expand(count, *y.shape)
    else:
        x, y = x[work.subsets], y[work.subsets]
    with fast_products(work.device):
        return make(common, each).fit(x, y)


def _asked(fitted: baselines.Fitted, work: Work) -> Network:
    def answer(x: Tensor) -> Answer:
        with fast_products(work.device):
            parts = [_answered(fitted.predict(part)) for part in x.split(_ROWS)]
        probs, variances = zip(*parts, strict=True)
        return Answer(torch.cat(probs, 1), None if variances[0] is None else torch.cat(variances, 1))

    return answer


def _answered(predicted: Any) -> Answer:
    assert isinstance(predicted, PredictedClasses)
    members = predicted.member_probs
    return Answer(predicted.probs, members.var(0, correction=0).sum(-1) if len(members) > 1 else None)


_NETWORK = "hidden", "epochs", "batch_size"
_NPN = *_NETWORK, "rate", "input_rate", "prior_precision", "masks"
METHODS = {
    "npn": Method("Gaussian NPN", _NPN, gaussian_npn),
    "npn_unopposed": Method("Gaussian NPN, no adversary", _NPN, gaussian_npn),
    "npn_mixture": Method("mixture of 5 Gaussian NPN", _NPN, mixed(gaussian_npn)),
    "gamma": Method("gamma NPN", (*_NPN, "gains"), gamma_npn),
    "dropout": Method("dropout, weight decay", _NETWORK, dropout),
    "dropout_alone": Method("dropout alone", _NETWORK, dropout),  # the same, with a prior_precision of 0
    "mc_dropout": Method("MC dropout", (*_NETWORK, "samples"), mc_dropout),
    "bbb": Method("Bayes by Backprop", (*_NETWORK, "prior", "samples"), bayes_by_backprop),
    "bdk": Method("dark knowledge", _NETWORK, dark_knowledge),
    "ensemble": Method("ensemble of 5", _NETWORK, ensemble),
    "dropout_mixture": Method("mixture of 5 dropout networks", _NETWORK, mixed(dropout)),
}
