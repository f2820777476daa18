"""What layers keep for evaluation, and how they are copied and stored."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from test_nn import KEYS, inputs, linear, seeded

from torchnpn import nn
from torchnpn.moments import Moments


@torch.no_grad()
def kept_is_right(parameter):
    """Whether the moments, kept or not, are those of the free tensors."""
    want = parameter._coordinates.moments(*(t.detach().clone() for t in parameter.free))
    pairs = list(zip(parameter.moments, want, strict=True))
    return all(x.dtype == y.dtype and torch.allclose(x, y, rtol=1e-6, atol=0) for x, y in pairs)


@torch.no_grad()
def test_moments_are_kept_while_nothing_changes():
    parameter = linear().weight.eval()
    assert parameter.moments is parameter.moments
    with torch.enable_grad():
        assert parameter.moments is not parameter.moments
        assert parameter.moments.variance.requires_grad


def _optimizer_step(layer, **settings):
    optimizer = torch.optim.Adam(layer.parameters(), 0.1, **settings)
    with torch.enable_grad():
        o = layer(torch.rand(3, 5))
        (o.mean.sum() + o.variance.sum()).backward()
    optimizer.step()


def _replace(layer):
    """New tensors in place of the old: torch's counters of changes start anew."""
    for name in ("mean", "log_std"):
        setattr(layer.weight, name, torch.nn.Parameter(torch.randn(4, 5)))


def _hidden_write(layer):
    layer.weight.log_std.data.add_(1.0)  # which torch does not count
    layer.eval()


CHANGES = {
    "optimizer step": _optimizer_step,
    "fused step": lambda layer: _optimizer_step(layer, fused=True),
    "foreach step": lambda layer: _optimizer_step(layer, foreach=True),
    "load_state_dict": lambda layer: layer.load_state_dict(nn.Linear(5, 4).state_dict()),
    "load and assign": lambda layer: layer.load_state_dict(nn.Linear(5, 4).state_dict(), assign=True),
    "to float64": lambda layer: layer.to(torch.float64),
    "through float16": lambda layer: layer.half().float(),
    "in place": lambda layer: layer.weight.log_std.add_(1.0),
    "from a vector": lambda layer: torch.nn.utils.vector_to_parameters(torch.randn(48), layer.parameters()),
    "new tensors": _replace,
    "write through .data, then eval()": _hidden_write,
}


@pytest.mark.parametrize("change", CHANGES)
@torch.no_grad()
def test_kept_moments_follow_every_change(change):
    layer = linear().eval()
    for _ in range(3):
        layer.weight.moments  # noqa: B018
        CHANGES[change](layer)
        assert kept_is_right(layer.weight)


@torch.no_grad()
def test_kept_moments_are_not_those_of_a_former_tensor():
    """Memory of this size is handed out anew at the same address."""
    layer = nn.Linear(300, 300).eval()
    for _ in range(20):
        layer.weight.moments  # noqa: B018
        layer.weight.log_std = None
        layer.weight.log_std = torch.nn.Parameter(torch.randn(300, 300))
        assert kept_is_right(layer.weight)


@torch.no_grad()
def test_training_mode_lets_go_of_kept_moments():
    layer = linear().eval()
    kept = layer.weight.moments
    assert layer.weight.moments is kept
    layer.train()
    assert layer.weight.moments is not layer.weight.moments
    layer.eval()
    assert layer.weight.moments is not kept


@torch.no_grad()
def test_kept_moments_do_not_leak_into_functional_calls():
    layer, x = linear().eval(), inputs()
    layer(x)
    for seed in range(5):
        state = {k: torch.randn(v.shape, generator=seeded(seed)) for k, v in layer.state_dict().items()}
        want = copy.deepcopy(layer)
        want.load_state_dict(state)
        wrapped = {k: torch.nn.Parameter(v.clone()) for k, v in state.items()}
        for values in (state, wrapped):
            torch.testing.assert_close(tuple(torch.func.functional_call(layer, values, (x,))), tuple(want(x)))


def test_inference_mode():
    x = inputs()
    want = linear()(x)
    with torch.inference_mode():
        made_here = linear().eval()
        torch.testing.assert_close(tuple(made_here(x)), tuple(Moments(*(t.detach() for t in want))))
    with torch.no_grad():
        made_here(x)
    layer = linear().eval()
    with torch.inference_mode():
        layer(x)
    torch.testing.assert_close(tuple(layer(x)), tuple(want))  # with gradients, after inference


@pytest.mark.parametrize("family", KEYS)
def test_copies_are_equal_and_apart(family):
    net = nn.mlp([5, 4, 3], family, dropout=0.1, generator=seeded()).eval()
    x = inputs()
    with torch.no_grad():
        want = net(x)  # fills what is kept
        file = io.BytesIO()
        torch.save(net, file)
        file.seek(0)
        copies = [copy.deepcopy(net), pickle.loads(pickle.dumps(net)), torch.load(file, weights_only=False)]
        for twin in copies:
            assert list(twin.state_dict()) == list(net.state_dict())
            torch.testing.assert_close(tuple(twin(x)), tuple(want))
            for p in twin.parameters():
                p.add_(0.5)
            assert not torch.allclose(twin(x).mean, want.mean)
        torch.testing.assert_close(tuple(net(x)), tuple(want))


def test_keys_of_a_network():
    net = nn.mlp([5, 4, 3], dropout=0.5)
    assert list(net.state_dict()) == [
        *("0.weight.mean", "0.weight.log_std", "0.bias.mean", "0.bias.log_std"),
        *("3.weight.mean", "3.weight.log_std", "3.bias.mean", "3.bias.log_std"),
    ]
    net = nn.mlp([5, 4, 3], "beta", output_family="gaussian")
    assert list(net.state_dict()) == [
        *("0.weight.logit_mean", "0.weight.logit_spread"),
        *("2.weight.mean", "2.weight.log_std", "2.bias.mean", "2.bias.log_std"),
    ]


def test_a_network_can_be_made_without_values():
    with torch.device("meta"):
        net = nn.mlp([5, 4, 3], "beta", output_family="gaussian")
    net = net.to_empty(device="cpu")
    net.load_state_dict(nn.mlp([5, 4, 3], "beta", output_family="gaussian", generator=seeded()).state_dict())
    assert net(inputs()).mean.isfinite().all()
