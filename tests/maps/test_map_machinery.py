"""Every moment map under torch.compile, vmap, export, low precision, broadcasting, point inputs and bad arguments."""

import inspect
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from support.map_cases import CASES, each
from torch import Tensor

from torchnpn import maps
from torchnpn.moments import Moments


class Operation(NamedTuple):
    """A map as a function of (mean, variance) tensors that returns a tuple of tensors."""

    name: str
    call: Callable[[Tensor, Tensor], tuple[Tensor, ...]]


def _with_other(binary):
    """A map of two arguments as one: the second is made from the first, of the same shape."""
    return lambda m, s: tuple(binary(Moments(m, s), Moments(0.3 - 0.5 * m, 0.1 + 0.7 * s)))


def _linear(m, s):
    W = Moments(torch.linspace(-1, 1, 15).reshape(3, 5), torch.linspace(0.01, 0.3, 15).reshape(3, 5))
    return tuple(maps.linear(Moments(m, s), W, Moments(torch.ones(3), torch.full((3,), 0.2))))


VARIANTS = ("clamp", "elu_half")  # the same code as hardtanh and elu with another constant
OPERATIONS = [
    *(
        Operation(case.name, lambda m, s, case=case: tuple(case.map(Moments(m, s))))
        for case in CASES
        if case.name not in VARIANTS
    ),
    Operation("max2", _with_other(maps.max2)),
    Operation("product", _with_other(maps.product)),
    Operation("linear", _linear),
    Operation("dropout", lambda m, s: tuple(maps.dropout(Moments(m, s), 0.25))),
    Operation("softmax_mean", lambda m, s: (maps.softmax_mean(Moments(m[..., :3], s[..., :3])),)),
    Operation("quadrature", lambda m, s: tuple(maps.quadrature(torch.tanh, Moments(m, s), nodes=16))),
]
COMPOSED = ("selu", "softmax_mean")  # made of maps that are compiled one by one; together half a minute
OPERATION_NAMED = {operation.name: operation for operation in OPERATIONS}
torchs_own_warnings = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


def inputs(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Mean and variance of shape (4, 5), small and large variances mixed, zero included."""
    generator = torch.Generator().manual_seed(0)
    m = 2 * torch.randn(4, 5, generator=generator)
    s = torch.logspace(-3, 1, 20)[torch.randperm(20, generator=generator)].reshape(4, 5)
    s[0, 0] = 0.0
    return m.to(dtype), s.to(dtype)


def value_and_gradients(call, m, s) -> tuple[Tensor, ...]:
    """Outputs and the gradients of a weighted sum of all of them."""
    m, s = m.clone().requires_grad_(), s.clone().requires_grad_()
    out = call(m, s)
    total = sum(((i + 1) * o * torch.linspace(0.5, 1.5, o.shape[-1])).sum() for i, o in enumerate(out))
    return *(o.detach() for o in out), *torch.autograd.grad(total, (m, s), materialize_grads=True)


def assert_same(got, want, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    torch.testing.assert_close(tuple(got), tuple(want), rtol=rtol, atol=atol)


def assert_compiles(operation: Operation, backend: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(operation.call, fullgraph=True, backend=backend)
    assert_same(value_and_gradients(compiled, *inputs()), value_and_gradients(operation.call, *inputs()))


def assert_compiles_without_gradients(operation: Operation) -> None:
    """Dynamo traces an autograd function differently where no gradient is asked: in prediction, in strict export."""
    torch._dynamo.reset()
    compiled = torch.compile(operation.call, fullgraph=True, backend="aot_eager")
    assert_same(compiled(*inputs()), operation.call(*inputs()))


@pytest.mark.slow
@torchs_own_warnings
@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o.name not in COMPOSED], ids=lambda o: o.name)
def test_compiles_to_one_graph(operation):
    assert_compiles(operation, "aot_eager")


@torchs_own_warnings
@pytest.mark.parametrize("name", ["relu", "heaviside"])
def test_compiles_to_one_graph_quick(name):
    assert_compiles(OPERATION_NAMED[name], "aot_eager")


@pytest.mark.slow
@torchs_own_warnings
@pytest.mark.parametrize("name", ["relu", "leaky_relu", "hardtanh", "max2", "linear"])  # by number of arguments
def test_compiles_without_gradients(name):
    assert_compiles_without_gradients(OPERATION_NAMED[name])


@pytest.mark.slow
@torchs_own_warnings
@pytest.mark.parametrize("name", ["relu", "sigmoid", "linear"])
def test_compiles_with_inductor(name):
    assert_compiles(OPERATION_NAMED[name], "inductor")


@every_operation
def test_vmap_equals_the_batched_call(operation):
    m, s = inputs()
    assert_same(torch.func.vmap(operation.call)(m, s), operation.call(m, s), rtol=1e-6)
    if operation.name not in ("linear", "softmax_mean"):  # element by element: any dimension will do
        by_column = torch.func.vmap(operation.call, in_dims=1, out_dims=1)(m, s)
        assert_same(by_column, operation.call(m, s), rtol=1e-6)
        unbatched_variance = torch.func.vmap(operation.call, in_dims=(0, None))(m, s[0])
        assert_same(unbatched_variance, operation.call(m, s[0].expand_as(m)), rtol=1e-6)


@every_operation
def test_per_sample_gradients(operation):
    def loss(m, s):
        return sum(((i + 1) * o).sum() for i, o in enumerate(operation.call(m, s)))

    m, s = inputs()
    got = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)))(m, s)
    rows = []
    for row in zip(m, s, strict=True):
        leaves = [x.clone().requires_grad_() for x in row]
        rows.append(torch.autograd.grad(loss(*leaves), leaves, materialize_grads=True))
    assert_same(got, [torch.stack(column) for column in zip(*rows, strict=True)])


class _Module(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, m, s):
        return self.call(m, s)


def assert_exports(operation: Operation, strict: bool) -> None:
    torch._dynamo.reset()
    m, s = inputs()
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(
        _Module(operation.call), (m, s), dynamic_shapes={"m": {0: batch}, "s": {0: batch}}, strict=strict
    )
    m, s = torch.cat([m, m + 1]), torch.cat([s, s])
    assert_same(program.module()(m, s), operation.call(m, s))


@pytest.mark.slow
@torchs_own_warnings
@every_operation
def test_exports(operation):
    assert_exports(operation, strict=False)


@pytest.mark.slow
@torchs_own_warnings
@pytest.mark.parametrize("name", ["relu", "hardtanh", "max2", "linear"])
def test_exports_strictly(name):
    """By dynamo, which traces as the compiled call without gradients does: a few maps of each make are enough."""
    assert_exports(OPERATION_NAMED[name], strict=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@every_operation
def test_low_precision_is_float32_rounded(operation, dtype):
    if operation.name == "linear":
        pytest.skip("a matrix product: its own precision, see test_linear.py")
    m, s = inputs(dtype)
    got, wide = operation.call(m, s), operation.call(m.float(), s.float())
    if operation.name in ("max2", "product"):  # the second argument is itself formed in low precision
        other = Moments((0.3 - 0.5 * m).float(), (0.1 + 0.7 * s).float())
        wide = tuple(getattr(maps, operation.name)(Moments(m.float(), s.float()), other))
    for low, high in zip(got, wide, strict=True):
        assert low.dtype == dtype
        steps = 2 if operation.name == "product" else 1  # a sum of three products; else the last digit, rounded
        largest = torch.finfo(dtype).max  # what is beyond it is this number
        expected = high.clamp(-largest, largest).to(dtype)
        torch.testing.assert_close(low, expected, rtol=steps * torch.finfo(dtype).eps, atol=0)


@each(CASES)
def test_autocast_does_not_change_the_result(case):
    m, s = inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = case.map(Moments(m, s))
    assert_same(got, case.map(Moments(m, s)), rtol=1e-6, atol=1e-8)  # bfloat16 would be off by 1e-3


@each(CASES)
def test_variance_broadcasts_against_the_mean(case):
    m, s = inputs()
    for mean, variance in ((m, s[0]), (m[:, :1], s), (m[0], s), (m, s[0, 3]), (m[0, 0], s)):
        leaves = [x.clone().requires_grad_() for x in (mean, variance)]
        full = [x.clone().requires_grad_() for x in torch.broadcast_tensors(mean, variance)]
        a, b = case.map(Moments(*leaves)), case.map(Moments(*full))
        assert_same(a, b, rtol=1e-6, atol=1e-8)  # torch rounds strided tensors otherwise than whole ones on some CPUs
        got = torch.autograd.grad((a.mean + a.variance).sum(), leaves)
        want = torch.autograd.grad((b.mean + b.variance).sum(), full)
        assert_same(got, [w.sum_to_size(x.shape) for w, x in zip(want, leaves, strict=True)])


@each(CASES)
def test_empty_and_scalar_tensors(case):
    a = case.map(Moments(torch.zeros(0, 3), torch.zeros(0, 3)))
    assert a.mean.shape == a.variance.shape == (0, 3)
    a = case.map(Moments(torch.tensor(0.5), torch.tensor(0.25)))
    assert a.mean.shape == a.variance.shape == ()


@each([case for case in CASES if case.low_variance])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_point_is_torchs_own_function(case, dtype):
    m = torch.tensor([-40.0, -3.0, -1e-3, 0.0, 0.25, 1.0, 7.0, 30.0], dtype=dtype)
    a = case.map(Moments(m))
    assert a.variance is None
    torch.testing.assert_close(a.mean, case.twin(m))


@every_operation
def test_inputs_are_not_changed(operation):
    m, s = inputs()
    kept = m.clone(), s.clone()
    operation.call(m, s)
    assert torch.equal(m, kept[0]) and torch.equal(s, kept[1])


@every_operation
def test_no_gradient_is_kept_where_none_is_asked(operation):
    for out in operation.call(*inputs()):
        assert not out.requires_grad


def _named(name: str) -> Callable:
    module, _, function = name.rpartition(".")
    return getattr(getattr(maps, module), function) if module else getattr(maps, function)


UNARY = sorted({case.name for case in CASES} - set(VARIANTS))


@pytest.mark.parametrize("name", [*UNARY, "softmax_mean"])
def test_bad_arguments_are_explained(name):
    function = _named(name)
    short = name.rpartition(".")[2]
    with pytest.raises(TypeError, match=rf"{short} expects npn\.Moments\(mean, variance\), got Tensor"):
        function(torch.zeros(3))
    with pytest.raises(TypeError, match=rf"{short} expects floating-point moments, got torch\.int64"):
        function(Moments(torch.zeros(3, dtype=torch.int64), torch.zeros(3)))
    with pytest.raises(TypeError, match=rf"{short} expects floating-point moments, got torch\.int64"):
        function(Moments(torch.zeros(3, dtype=torch.int64)))
    message = r"got mean of shape \(3,\) and variance of shape \(4,\)"
    with pytest.raises(ValueError, match=rf"{short} expects .*shapes that broadcast together, {message}"):
        function(Moments(torch.zeros(3), torch.zeros(4)))


@pytest.mark.parametrize("name", ["max2", "product"])
def test_bad_arguments_of_two_are_explained(name):
    function, good = getattr(maps, name), Moments(torch.zeros(3), torch.ones(3))
    for pair in ((torch.zeros(3), good), (good, torch.zeros(3))):
        with pytest.raises(TypeError, match=rf"{name} expects npn\.Moments\(mean, variance\), got Tensor"):
            function(*pair)
    with pytest.raises(TypeError, match=rf"{name} expects floating-point moments, got torch\.int64"):
        function(good, Moments(torch.zeros(3, dtype=torch.int64), torch.ones(3)))
    with pytest.raises(ValueError, match=rf"{name} expects"):
        function(good, Moments(torch.zeros(4), torch.ones(4)))


def test_bad_constants_are_explained():
    o = Moments(torch.zeros(3), torch.ones(3))
    with pytest.raises(ValueError, match="lower < upper"):
        maps.hardtanh(o, 1.0, -1.0)
    for p in (-0.1, 1.5):
        with pytest.raises(ValueError, match="dropout expects"):
            maps.dropout(o, p)
    with pytest.raises(ValueError, match=r"quadrature expects|positive integer"):
        maps.quadrature(torch.tanh, o, nodes=0)


@pytest.mark.parametrize("name", UNARY)
def test_every_map_is_documented_and_typed(name):
    function = _named(name)
    assert inspect.getdoc(function)
    assert inspect.signature(function).return_annotation in (Moments, "Moments")
