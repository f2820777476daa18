"""Each function of `torchnpn._torch` does what it says in this version of torch."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.utils import _pytree

from torchnpn import _torch


def seen(function, transform):
    """What a function says of a tensor inside a transform."""
    found = []

    def inside(x):
        found.append(function(x))
        return x.sum()

    transform(inside)(torch.ones(3))
    return found[0]


def test_a_tensor_inside_a_transform_is_known():
    assert not _torch.is_transformed(torch.ones(3))
    assert not _torch.is_transformed(torch.nn.Parameter(torch.ones(3)))
    assert seen(_torch.is_transformed, torch.func.grad)
    assert seen(_torch.is_transformed, torch.func.vmap)


def test_values_can_be_looked_at_unless_batched_or_traced():
    assert _torch.has_values(torch.ones(3))
    assert seen(_torch.has_values, torch.func.grad)
    assert not seen(_torch.has_values, torch.func.vmap)
    assert not seen(_torch.has_values, lambda f: lambda x: torch.func.grad(lambda y: torch.func.vmap(f)(y).sum())(x))
    with torch._subclasses.FakeTensorMode():
        assert not _torch.has_values(torch.ones(3))


def test_a_transform_at_work_is_known():
    assert not _torch.is_transforming()
    assert seen(lambda _: _torch.is_transforming(), torch.func.grad)
    assert seen(lambda _: _torch.is_transforming(), torch.func.vmap)


def test_tracing_is_known():
    assert not _torch.is_tracing()
    with torch._subclasses.FakeTensorMode():
        assert _torch.is_tracing()


@pytest.mark.parametrize(
    "register",
    [
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
    ],
)
def test_every_kind_of_hook_is_found(register):
    module = torch.nn.Linear(2, 1)
    assert not _torch.has_hooks(module)
    handle = getattr(module, register)(lambda *_: None)
    assert _torch.has_hooks(module)
    assert not _torch.has_hooks(torch.nn.Sequential(module))  # of the module itself, not of those inside
    handle.remove()
    assert not _torch.has_hooks(module)


def test_a_change_in_place_counts():
    x = torch.ones(3)
    before = _torch.version(x)
    x.add_(1)
    assert _torch.version(x) == before + 1


@dataclasses.dataclass
class Pair:
    x: torch.Tensor
    y: torch.Tensor
    name: str


def test_a_registered_class_is_taken_apart_and_put_together():
    _torch.register_pytree(
        Pair, "tests.Pair", lambda p: ({"x": p.x, "y": p.y}, p.name), lambda leaves, name: Pair(*leaves, name)
    )
    pair = Pair(torch.zeros(2), torch.ones(2), "a name")
    doubled = _pytree.tree_map(lambda t: 2 * t, pair)
    assert isinstance(doubled, Pair) and doubled.name == "a name"
    assert torch.equal(doubled.y, torch.full((2,), 2.0))
    keys = [_pytree.keystr(path) for path, _ in _pytree.tree_flatten_with_path(pair)[0]]
    assert keys == [".x", ".y"]
    assert torch.equal(torch.func.vmap(lambda p: p.x + p.y)(pair), torch.ones(2))


@pytest.mark.slow
def test_a_constant_function_is_not_traced():
    @_torch.constant_under_compile
    def constant():
        return float(__import__("numpy").polynomial.hermite_e.hermegauss(2)[0][1])

    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x * constant(), backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2))


def test_gamma_draws_have_their_moments_and_come_from_the_generator():
    draw = lambda seed: _torch.standard_gamma(torch.full((20_000,), 2.5), torch.Generator().manual_seed(seed))
    assert torch.equal(draw(0), draw(0)) and not torch.equal(draw(0), draw(1))
    assert draw(0).mean().item() == pytest.approx(2.5, abs=5 * (2.5 / 20_000) ** 0.5)
    assert draw(0).var().item() == pytest.approx(2.5, rel=0.1)


def test_a_second_derivative_is_refused_with_the_message():
    x = torch.ones(3, requires_grad=True)
    (y, nothing) = _torch.refused_when_differentiated("no second derivative here", [x * 2, None])
    assert nothing is None and torch.equal(y.detach(), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="no second derivative here"):
        y.sum().backward()


def test_modules_and_their_own_parameters_are_all_there():
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.Linear(3, 1, bias=False)))
    net.register_module("nothing", None)
    found = [*_torch.modules_in(net)]
    assert found == [*net.modules()]
    own = [parameter for part in found for parameter in _torch.own_parameters(part)]
    assert [*map(id, own)] == [*map(id, net.parameters())]


def test_products_by_onednn_are_those_of_torch():
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    x, W, b = (torch.randn(*shape, generator=torch.Generator().manual_seed(0)) for shape in ((5, 7), (3, 7), (3,)))
    torch.testing.assert_close(_torch.onednn_linear(x, W, b), x @ W.T + b)
    W = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(_torch.onednn_linear(x.T, W.T, None), x.T @ W)
    assert isinstance(_torch.cpu_features().has_avx512, bool)


def test_a_fused_step_is_adams():
    x, g = torch.randn(2, 6, generator=torch.Generator().manual_seed(0))
    m, v = 0.1 * g, 0.2 * g**2
    want = (0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g**2)
    want = (x - 0.3 * want[0] / (want[1].sqrt() * 1.7 + 1e-3), *want)
    _torch.fused_adam_([x], [g], [m], [v], 0.3, 1.7, (0.9, 0.99), 1e-3)
    for ours, theirs in zip((x, m, v), want, strict=True):
        torch.testing.assert_close(ours, theirs)
