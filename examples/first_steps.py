"""Push distributions through a small computation, in one pass each, and compare with a million draws.

python examples/first_steps.py
"""

import torch

import torchnpn as npn
from torchnpn import families, maps

DRAWS = 1_000_000


def draw(x: npn.Moments, generator: torch.Generator) -> torch.Tensor:
    """Independent Gaussian draws with these moments."""
    return families.Gaussian.from_moments(x).sample(DRAWS, generator)


def report(name: str, ours: npn.Moments, draws: torch.Tensor) -> None:
    spread, sampled = ours.std.item(), draws.double().std(0).item()
    print(f"{name:34}{ours.mean.item():10.4f} ± {spread:.4f}{draws.double().mean(0).item():12.4f} ± {sampled:.4f}")


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    print(f"{'':34}{'one pass':>19}{'a million draws':>21}")

    # A neuron: noisy inputs, uncertain weights.
    x = npn.Moments(torch.tensor([1.0, -0.5, 2.0]), torch.tensor([0.1, 0.4, 0.0]))  # the third input is known
    W = npn.Moments(torch.tensor([[0.8, -1.2, -0.4]]), torch.full((1, 3), 0.05))
    o = maps.linear(x, W)
    drawn = (draw(x, generator) * draw(W, generator)[:, 0]).sum(1, keepdim=True)
    report("Gaussian: x Wᵀ", o, drawn)
    report("Gaussian: relu(x Wᵀ)", maps.relu(o), drawn.relu())
    report("Gaussian: sigmoid(x Wᵀ)", maps.sigmoid(o), drawn.sigmoid())

    # Neurons of other families, with the activation of Theorem 1.
    amount = families.Gamma.from_moments(npn.Moments(torch.tensor(2.0), torch.tensor(1.5)))
    report("gamma: 1 - exp(-x/2)", maps.saturating(amount, tau=0.5), 1 - (-amount.sample(DRAWS, generator) / 2).exp())
    count = families.Poisson(torch.tensor(3.0))
    report("Poisson: 1 - exp(-x/10)", maps.saturating(count, tau=0.1), 1 - (-count.sample(DRAWS, generator) / 10).exp())
    share = families.Beta(torch.tensor(2.0), torch.tensor(5.0))
    report("beta: √x", maps.saturating(share, tau=0.5, r=0.0, q=-1.0), share.sample(DRAWS, generator).sqrt())

    print("\nx Wᵀ is a sum of products, not quite Gaussian: hence the third digit of its ReLU and sigmoid.")
    low, high = amount.quantile(torch.tensor([0.05, 0.95])).tolist()
    print(f"The gamma amount lies in [{low:.2f}, {high:.2f}] with probability 0.9.")


if __name__ == "__main__":
    main()
