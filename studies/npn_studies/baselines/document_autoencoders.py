"""Point autoencoders of documents: plain, denoising and variational, trained alike, as ours are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from npn_studies.baselines.document_codes import Codes
from npn_studies.baselines.interface import Settings
from npn_studies.baselines.loop import batches, recorded, seeded, steps
from torchnpn.documents import checked_counts, present, row_max, warm_cosine, word_means
from torchnpn.moments import Moments
from torchnpn.sparse import SparseRows
from torchnpn.training import resolve_device

_ENCODED = 256  # documents that are dense at a time


@dataclass(frozen=True)
class StackedAutoencoder:
    """SAE, and with `masking` the denoising SDAE: B-100-50-100-B with tanh, cross-entropy of words from 0 to 1.

    Attributes:
        hidden: Units of the encoder's layers; the last is the code. (200, 50) is the double budget.
        masking: Share of a document's words that is dropped in training.
        binary: Whether a word counts once in a document, however often it stands there.
        weight_decay: Of AdamW.
        learning_rate: Of AdamW; rises over `warm_up` steps, then falls to zero along half a cosine.
        warm_up: Steps.
        epochs: Passes over the documents.
        batch_size: Documents of a step.
        seed: Decides the first weights, the order of documents and all draws.
        device: "auto" (a GPU if there is one), or torch's name of a device.
    """

    hidden: tuple[int, ...] = (100, 50)
    masking: float = 0.0
    binary: bool = False
    weight_decay: float = 0.0
    learning_rate: float = 2e-3
    warm_up: int = 100
    epochs: int = 60
    batch_size: int = 256
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        if not 0 <= self.masking < 1:
            raise ValueError(f"{type(self).__name__} expects masking from 0 to below 1, got {self.masking}.")

    def inputs(self, counts: Any, words: int | None = None) -> Any:
        """Documents as the network sees them, from 0 to 1."""
        matrix = checked_counts(counts, words)
        return row_max(present(matrix) if self.binary else matrix)

    def fit(self, counts: Any) -> Codes:
        """See `DocumentCodes`."""
        return _fitted(self, counts, self.hidden[-1], lambda outputs: Moments(torch.tanh(outputs)), _no_divergence)


@dataclass(frozen=True)
class VariationalAutoencoder(StackedAutoencoder):
    """VAE (Kingma and Welling 2014): a Gaussian code with one draw a step, and β KL(q(z) ‖ N(0, 1)) in the loss.

    Attributes:
        beta: β.
    """

    beta: float = 0.1

    def fit(self, counts: Any) -> Codes:
        """See `DocumentCodes`."""
        return _fitted(self, counts, 2 * self.hidden[-1], _gaussian, lambda z: self.beta * _standard_divergence(z))


class _Network(nn.Module):
    """Linear layers with tanh between them, to the outputs from which the code is made and from the code on."""

    def __init__(self, words: int, hidden: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.encoder = _layers([words, *hidden[:-1], outputs])
        self.decoder = _layers([*reversed(hidden), words])


def _layers(sizes: list[int]) -> nn.Sequential:
    parts: list[nn.Module] = []
    for n_in, n_out in itertools.pairwise(sizes):
        parts += [nn.Tanh(), nn.Linear(n_in, n_out)]
    return nn.Sequential(*parts[1:])


def _fitted(
    settings: StackedAutoencoder,
    counts: Any,
    outputs: int,
    code: Callable[[Tensor], Moments],
    divergence: Callable[[Moments], Tensor],
) -> Codes:
    """Minimise the mean over documents of cross-entropy and divergence of the code; what encodes then."""
    matrix = settings.inputs(counts)
    place = resolve_device(settings.device)
    rows = SparseRows.from_csr(matrix, place)
    means = torch.from_numpy(word_means(matrix)).float()
    loop = Settings(epochs=settings.epochs, batch_size=settings.batch_size, device=str(place))
    with seeded(settings.seed, str(place)):
        network = _Network(matrix.shape[1], settings.hidden, outputs)
        energy = float((matrix.data**2).sum() / matrix.shape[0])
        _start_(network, max(energy, 1e-3), means.logit())
        network.to(place)

        def loss(y: Tensor) -> Tensor:
            kept = (torch.rand_like(y) >= settings.masking) / (1 - settings.masking)
            z = code(network.encoder(y * kept))
            drawn = z.mean if z.variance is None else z.mean + z.variance.sqrt() * torch.randn_like(z.mean)
            logits = network.decoder(drawn)
            errors = (functional.softplus(logits) - y * logits).sum(-1)
            total: Tensor = (errors + divergence(z)).mean()
            return total

        _minimise(loss, network, rows, settings, loop)
    words = matrix.shape[1]

    def encode(counts: Any) -> Moments:
        scaled = settings.inputs(counts, words)
        with torch.no_grad():
            parts = [code(network.encoder(x)) for x in _dense(scaled, place)]
        means, variances = zip(*parts, strict=True)
        variance = None if variances[0] is None else torch.cat(variances).cpu().numpy()
        return Moments(torch.cat(means).cpu().numpy(), variance)  # type: ignore[arg-type]

    return encode


def _minimise(
    loss: Callable[[Tensor], Tensor],
    network: nn.Module,
    rows: SparseRows,
    settings: StackedAutoencoder,
    loop: Settings,
) -> None:
    """AdamW on loss(documents of a step); on a GPU the step is recorded and repeated."""
    place = rows.device
    rate = torch.tensor(settings.learning_rate, device=place)  # in the device's memory, where a recorded step reads it
    optimizer = torch.optim.AdamW(
        network.parameters(), rate, weight_decay=settings.weight_decay, capturable=place.type == "cuda", fused=True
    )
    scheduler = warm_cosine(settings.warm_up)(optimizer, max(steps(rows.shape[0], loop), 1))

    def step(numbers: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(rows.take(numbers[0]).dense()).backward()
        optimizer.step()

    repeat = recorded(step, str(place))
    for numbers in batches(1, rows.shape[0], loop):
        repeat(numbers)
        scheduler.step()


@torch.no_grad()
def _start_(network: _Network, energy: float, logits: Tensor) -> None:
    """Weights N(0, 1/n) with n = E Σ x² in the first layer, the number of inputs elsewhere; each word at its mean."""
    linear = [module for module in network.modules() if isinstance(module, nn.Linear)]
    for layer in linear:
        layer.weight.normal_(0, 1 / math.sqrt(energy if layer is linear[0] else layer.in_features))
        layer.bias.zero_()
    linear[-1].bias.copy_(logits)


def _gaussian(outputs: Tensor) -> Moments:
    mean, log_variance = outputs.chunk(2, -1)
    return Moments(mean, log_variance.exp())


def _standard_divergence(z: Moments) -> Tensor:  # (documents,)
    """KL(N(m, s) ‖ N(0, 1)) = ½ (m² + s - 1 - log s), summed over the code."""
    m, s = z
    assert s is not None
    return 0.5 * (m**2 + s - 1 - s.log()).sum(-1)


def _no_divergence(z: Moments) -> Tensor:
    return z.mean.new_zeros(())


def _dense(scaled: Any, place: torch.device) -> Iterator[Tensor]:
    for start in range(0, scaled.shape[0], _ENCODED):
        yield SparseRows.from_csr(scaled[start : start + _ENCODED], place).all().dense()
