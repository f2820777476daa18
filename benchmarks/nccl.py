"""One GPU under torchrun: the curve of losses with NCCL between gradient and update, beside that of a plain training.

`torchrun --standalone --nproc-per-node=1 benchmarks/nccl.py` trains a small network of each kind twice, with
`strategy="ddp"`, where each step sums its gradients by NCCL inside the CUDA graph, and with `strategy="alone"`; with
more processes on more GPUs, the first of them is compared with all rows in one process. Takes seconds. Writes
studies/results/nccl.json; on a machine without a GPU it is gloo that is tried, and nothing is written.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

import torchnpn as npn
from torchnpn.training import Recipe, join, train

RECORD = Path(__file__).parents[1] / "studies" / "results" / "nccl.json"
ROWS, FEATURES = 4_000, 8


def curve(activation: str, strategy: str, device: str) -> list[float]:
    """The loss of each epoch."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, FEATURES, generator=generator)
    y = (x[:, :1] * x[:, 1:2]).sin() + 0.1 * torch.randn(ROWS, 1, generator=generator)
    net = npn.nn.mlp([FEATURES, 64, 1], activation=activation, generator=generator)
    recipe = Recipe(epochs=5, batch_size=256, learning_rate=1e-2, precision="float32")
    likelihood = npn.likelihoods.GaussianNoise()
    history = train(net, (x, y), likelihood, npn.priors.EmpiricalBayes(), recipe, device=device, strategy=strategy)
    return [one.loss for one in history.epochs]


def main() -> None:
    """Compare, say, and write the record."""
    cuda = torch.cuda.is_available()
    processes = join("ddp")
    record = {
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "torch": torch.__version__,
        "NCCL": ".".join(map(str, torch.cuda.nccl.version())) if cuda else None,
        "processes": processes.count,
        "curves": {},
    }
    for activation in ("relu", "tanh", "elu"):
        both = {strategy: curve(activation, strategy, "cuda" if cuda else "cpu") for strategy in ("ddp", "alone")}
        apart = max(abs(a - b) / abs(b) for a, b in zip(both["ddp"], both["alone"], strict=True))
        record["curves"][activation] = {**both, "largest relative difference": apart}
    if processes.is_first:
        print(json.dumps(record, indent=1))
        if cuda:
            RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
