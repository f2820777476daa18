"""How far the training of an autoencoder is, told to people and programs."""

from __future__ import annotations

from torchnpn.estimators.base import Progress
from torchnpn.training import History


def tell(verbose: int, epochs: int, progress: Progress | None, history: History) -> None:
    """After an epoch: call `progress` with the share that is done; if `verbose`, print some ten lines in all."""
    done, last = len(history.epochs), history.last
    if progress is not None:
        progress(done / epochs)
    if verbose and (done % max(1, epochs // 10) == 0 or done == epochs):
        print(f"[NPNAutoencoder] epoch {done}/{epochs}: loss {last.loss:.4f}, KL {last.kl:.4f}")
