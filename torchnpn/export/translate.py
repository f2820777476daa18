"""From a program of `torch.export` to an ONNX graph.

What depends on no input is computed here and now and becomes a constant: the moments of weights, levels, scales. Sizes
are known but for the number of rows. Tensors that torch repeats along a dimension stay as small as they were, as long
as only element-wise operations read them: ONNX broadcasts as torch does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import SymInt, Tensor, fx
from torch.export import ExportedProgram

from torchnpn.export.graph import TYPES, Graph, Value
from torchnpn.export.operators import ELEMENTWISE, Writer

Handler = Callable[..., Any]
_IGNORED = {"_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range_for_size"}
_SAME = {"detach", "clone", "contiguous", "alias", "lift_fresh_copy", "lift_fresh", "broadcast_tensors", "expand"}
_OF_SHAPE = {"zeros": 0, "ones": 1, "full": None, "zeros_like": 0, "ones_like": 1, "full_like": None, "new_zeros": 0}


class Rows(NamedTuple):
    """So many times the number of rows: a size that is known when the graph runs."""

    times: int = 1


class CannotTranslate(Exception):
    """An operation for which ONNX has no form here."""


def translated(program: ExportedProgram, names: Sequence[str]) -> tuple[Graph, list[Value], list[Value]]:
    """The graph of a program, its inputs under these names, and its outputs."""
    graph = Graph()
    signature = program.graph_signature
    constants = {**program.state_dict, **program.constants}
    targets = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    targets |= signature.inputs_to_lifted_tensor_constants
    env: dict[fx.Node, Any] = {}
    inputs: list[Value] = []
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        if node.name in targets:
            env[node] = constants[targets[node.name]].detach()
        else:
            env[node] = Value(names[len(inputs)], node.meta["val"].dtype, _shape(node))
            inputs.append(env[node])
    outputs = _Translator(graph, env, inputs[0]).run(program.graph_module)
    return graph, inputs, outputs


class _Translator:
    """Walks over the nodes of one graph module.

    Args:
        graph: Where nodes are written.
        env: What is known of the module's inputs; and, soon, of its nodes.
        first: An input whose first dimension is the number of rows.
    """

    def __init__(self, graph: Graph, env: dict[fx.Node, Any], first: Value) -> None:
        self.graph, self.env, self.first = graph, env, first

    def run(self, module: fx.GraphModule) -> list[Value]:
        """Its outputs."""
        for node in module.graph.nodes:
            if node.op == "get_attr":
                self.env[node] = getattr(module, str(node.target))
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                return [self._whole(value, node_) for value, node_ in _flat(node.args[0], self._value)]
        raise AssertionError("a graph has an output")

    def _call(self, node: fx.Node) -> None:
        target: Any = node.target
        name = target._schema.name.split("::")[1] if hasattr(target, "_schema") else target.__name__
        in_place = name.endswith("_") and not name.endswith("__")
        name = name.removesuffix("_") if in_place else name
        if name in _IGNORED:
            return
        if target is operator.getitem:
            self.env[node] = self._value(node.args[0])[node.args[1]]
            return
        result = self._result(name, node)
        self.env[node] = result
        if in_place:
            self.env[node.args[0]] = result  # type: ignore[index]

    def _result(self, name: str, node: fx.Node) -> Any:
        if name == "cond":
            return self._cond(node)
        if name in ("sym_size", "mul", "add", "sub") and not isinstance(node.meta["val"], Tensor):
            return self._size(name, node)
        elementwise = name in ELEMENTWISE or name in _SAME or name in _OF_SHAPE or name in ("to", "_to_copy")
        args = self._arguments(node.args, whole=not elementwise)
        kwargs = {key: self._arguments(value, whole=not elementwise) for key, value in node.kwargs.items()}
        if name in _OF_SHAPE:
            return self._filled(name, node, args)
        if not any(isinstance(leaf, (Value, Rows)) for leaf in _leaves((args, kwargs))):
            return self._computed(name, node, args, kwargs)
        if name in _SAME:
            return list(args[0]) if name == "broadcast_tensors" else args[0]
        if name in ("to", "_to_copy"):
            return self._cast(args[0], node.meta["val"].dtype)
        if name in ELEMENTWISE:
            return self._elementwise(name, node, args, kwargs)
        shaped = getattr(self, f"_{name}", None)
        if shaped is None:
            raise CannotTranslate(f"torch's operation {name!r}")
        return shaped(node, *args, **kwargs)

    # Values --------------------------------------------------------------------------------------------------------

    def _value(self, node: Any) -> Any:
        return self.env[node] if isinstance(node, fx.Node) else node

    def _arguments(self, args: Any, whole: bool) -> Any:
        """Values in place of nodes; in full shape, if asked for."""
        if isinstance(args, fx.Node):
            return self._whole(self.env[args], args) if whole else self.env[args]
        if isinstance(args, (list, tuple)):
            return [self._arguments(arg, whole) for arg in args]
        return args

    def _whole(self, value: Any, node: Any) -> Any:
        """A value in the shape that torch has for it."""
        if not isinstance(node, fx.Node) or not isinstance(node.meta.get("val"), Tensor):
            return value
        wanted = _shape(node)
        have = tuple(value.shape)
        if have == wanted or not isinstance(value, (Value, Tensor)):
            return value
        missing = wanted[: len(wanted) - len(have)]
        rest = zip(wanted[len(missing) :], have, strict=True)
        sizes = [*missing, *(size if size != own else 1 for size, own in rest)]  # 1 leaves a dimension as it is
        shape = self._shape_of([Rows() if size is None else size for size in sizes])
        return Value(self.graph.op("Expand", self._name(value), shape), value.dtype, wanted)

    def _name(self, value: Any, dtype: torch.dtype | None = None) -> str:
        """The name of a value, in a type."""
        if isinstance(value, Value):
            return value.name if dtype in (None, value.dtype) else self._cast(value, dtype).name
        if isinstance(value, Tensor):
            return self.graph.constant(value, dtype or value.dtype)
        return self.graph.constant(value, dtype)

    def _cast(self, value: Any, dtype: torch.dtype) -> Value:
        if value.dtype == dtype:
            return value  # type: ignore[no-any-return]
        return Value(self.graph.op("Cast", value.name, to=TYPES[dtype]), dtype, value.shape)

    def _made(self, node: fx.Node, kind: str, *inputs: str, **attributes: Any) -> Value:
        """A node whose result has torch's type and shape."""
        return Value(self.graph.op(kind, *inputs, **attributes), node.meta["val"].dtype, _shape(node))

    def _computed(self, name: str, node: fx.Node, args: Any, kwargs: Any) -> Any:
        """A constant."""
        target: Any = node.target
        if target._schema.name.endswith("_") and not target._schema.name.endswith("__"):
            args = [args[0].clone(), *args[1:]]
        return target(*args, **kwargs)

    # Sizes ---------------------------------------------------------------------------------------------------------

    def _size(self, name: str, node: fx.Node) -> Any:
        if name == "sym_size":
            return Rows()
        a, b = self._arguments(node.args, whole=False)
        if name == "mul" and isinstance(a, Rows) != isinstance(b, Rows):
            return Rows(a.times * b) if isinstance(a, Rows) else Rows(a * b.times)
        raise CannotTranslate("arithmetic of sizes")

    def _shape_of(self, sizes: Sequence[int | Rows]) -> str:
        """A shape, as a node where it has the number of rows in it."""
        rows = self.graph.op("Shape", self.first.name, start=0, end=1)
        parts = [
            self.graph.op("Mul", rows, self.graph.constant([size.times]))
            if isinstance(size, Rows) and size.times != 1
            else rows
            if isinstance(size, Rows)
            else self.graph.constant([size])
            for size in sizes
        ]
        return self.graph.op("Concat", *parts, axis=0)

    def _filled(self, name: str, node: fx.Node, args: Any) -> Tensor:
        """A constant of size one in the dimension of rows: it broadcasts."""
        value, fill = node.meta["val"], _OF_SHAPE[name]
        shape = [1 if isinstance(size, SymInt) else size for size in value.shape]
        return torch.full(shape, args[1] if fill is None else fill, dtype=value.dtype)

    # Operations ----------------------------------------------------------------------------------------------------

    def _elementwise(self, name: str, node: fx.Node, args: Any, kwargs: Any) -> Value:
        dtype = node.meta["val"].dtype
        of = dtype
        if dtype == torch.bool:
            first = [x for x in args if isinstance(x, (Value, Tensor))]
            of = first[0].dtype
            for other in first[1:]:
                of = torch.promote_types(of, other.dtype)
        rest = {key: value for key, value in kwargs.items() if value is not None}
        is_where = name == "where"
        named = [
            self._name(x, torch.bool if is_where and i == 0 else of) if isinstance(x, (Value, Tensor)) else x
            for i, x in enumerate(args)
        ]
        shapes = [tuple(x.shape) for x in args if isinstance(x, (Value, Tensor))]
        result = ELEMENTWISE[name](Writer(self.graph, of), *named, **rest)
        return Value(result, dtype, _broadcast(shapes))

    def _cond(self, node: fx.Node) -> list[Value]:
        """`torch.cond` as ONNX's If, whose branches read what they need from around them."""
        condition, *branches, operands = node.args
        given = [self._value(operand) for operand in operands]  # type: ignore[union-attr]
        attributes = {}
        shapes: list[Value] = []
        for key, branch in zip(("then_branch", "else_branch"), branches, strict=True):
            module = self._value(branch)
            inner = Graph(self.graph)
            places = [one for one in module.graph.nodes if one.op == "placeholder"]
            outputs = _Translator(inner, dict(zip(places, given, strict=True)), self.first).run(module)
            shapes = outputs
            attributes[key] = inner.branch(
                [value.name if isinstance(value, Value) else inner.constant(value) for value in outputs]
            )
        names = [self.graph.fresh() for _ in shapes]
        self.graph.several("If", [self._name(self._value(condition))], names, **attributes)
        metas = node.meta["val"]
        return [
            Value(name, meta.dtype, tuple(None if isinstance(size, SymInt) else size for size in meta.shape))
            for name, meta in zip(names, metas, strict=True)
        ]

    def _matmul(self, node: fx.Node, a: Any, b: Any) -> Value:
        dtype = node.meta["val"].dtype
        return self._made(node, "MatMul", self._name(a, dtype), self._name(b, dtype))

    _mm = _bmm = _matmul

    def _linear(self, node: fx.Node, x: Any, weight: Tensor, bias: Any = None) -> Value:
        product = self._made(node, "MatMul", self._name(x), self._name(weight.T))
        return product if bias is None else self._made(node, "Add", product.name, self._name(bias))

    def _reduced(self, kind: str, node: fx.Node, x: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Value:
        rank = len(x.shape)
        dims = range(rank) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
        axes = self.graph.constant([d % rank for d in dims])
        x = self._cast(x, node.meta["val"].dtype) if kind != "ReduceMax" and x.dtype != torch.bool else x
        name = self._name(x, torch.int64 if x.dtype == torch.bool else None)
        return self._made(node, kind, name, axes, keepdims=int(keepdim))

    def _sum(self, node: fx.Node, x: Any, *args: Any, **kwargs: Any) -> Value:
        return self._reduced("ReduceSum", node, x, *args, **kwargs)

    def _mean(self, node: fx.Node, x: Any, *args: Any, **kwargs: Any) -> Value:
        return self._reduced("ReduceMean", node, x, *args, **kwargs)

    def _amax(self, node: fx.Node, x: Any, *args: Any, **kwargs: Any) -> Value:
        return self._reduced("ReduceMax", node, x, *args, **kwargs)

    def _amin(self, node: fx.Node, x: Any, *args: Any, **kwargs: Any) -> Value:
        return self._reduced("ReduceMin", node, x, *args, **kwargs)

    def _any(self, node: fx.Node, x: Any, *args: Any, **kwargs: Any) -> Value:
        return self._of_truth("ReduceMax", node, x, *args, **kwargs)

    def _all(self, node: fx.Node, x: Any, *args: Any, **kwargs: Any) -> Value:
        return self._of_truth("ReduceMin", node, x, *args, **kwargs)

    def _of_truth(self, kind: str, node: fx.Node, x: Any, dim: int | None = None, keepdim: bool = False) -> Value:
        rank = len(x.shape)
        axes = self.graph.constant(list(range(rank)) if dim is None else [dim % rank])
        number = self.graph.op(kind, self._name(x, torch.float32), axes, keepdims=int(keepdim))
        return self._made(node, "Greater", number, self.graph.constant(0.0, torch.float32))

    def _cumsum(self, node: fx.Node, x: Any, dim: int, **_: Any) -> Value:
        return self._made(
            node, "CumSum", self._name(x, node.meta["val"].dtype), self.graph.constant(dim % len(x.shape))
        )

    def _softmax(self, node: fx.Node, x: Any, dim: int, *_: Any, **__: Any) -> Value:
        return self._made(node, "Softmax", self._name(x), axis=dim)

    def _logsumexp(self, node: fx.Node, x: Any, dim: Any, keepdim: bool = False) -> Value:
        dims = [dim] if isinstance(dim, int) else dim
        return self._made(
            node,
            "ReduceLogSumExp",
            self._name(x),
            self.graph.constant([d % len(x.shape) for d in dims]),
            keepdims=int(keepdim),
        )

    def _view(self, node: fx.Node, x: Any, sizes: Any, *_: Any) -> Value:
        wanted = _shape(node)
        shape = self.graph.constant([-1 if size is None else size for size in wanted], torch.int64)
        return self._made(node, "Reshape", self._name(x), shape)

    _reshape = _flatten = _unflatten = _view

    def _unsqueeze(self, node: fx.Node, x: Any, dim: int) -> Value:
        rank = len(x.shape) + 1
        return self._made(node, "Unsqueeze", self._name(x), self.graph.constant([dim % rank]))

    def _squeeze(self, node: fx.Node, x: Any, dim: Any) -> Value:
        dims = [dim] if isinstance(dim, int) else dim
        return self._made(node, "Squeeze", self._name(x), self.graph.constant([d % len(x.shape) for d in dims]))

    def _permute(self, node: fx.Node, x: Any, dims: Sequence[int]) -> Value:
        return self._made(node, "Transpose", self._name(x), perm=[d % len(x.shape) for d in dims])

    def _transpose(self, node: fx.Node, x: Any, first: int, second: int) -> Value:
        order = list(range(len(x.shape)))
        order[first], order[second] = order[second], order[first]
        return self._permute(node, x, order)

    def _numpy_T(self, node: fx.Node, x: Any) -> Value:
        return self._permute(node, x, list(range(len(x.shape)))[::-1])

    def _mT(self, node: fx.Node, x: Any) -> Value:
        return self._transpose(node, x, -2, -1)

    def _movedim(self, node: fx.Node, x: Any, source: int, destination: int) -> Value:
        order = list(range(len(x.shape)))
        order.insert(destination % len(order), order.pop(source % len(order)))
        return self._permute(node, x, order)

    def _cat(self, node: fx.Node, parts: Any, dim: int = 0) -> Value:
        dtype = node.meta["val"].dtype
        return self._made(node, "Concat", *(self._name(part, dtype) for part in parts), axis=dim)

    def _stack(self, node: fx.Node, parts: Any, dim: int = 0) -> Value:
        rank = len(node.meta["val"].shape)
        axis = self.graph.constant([dim % rank])
        dtype = node.meta["val"].dtype
        named = [self.graph.op("Unsqueeze", self._name(part, dtype), axis) for part in parts]
        return self._made(node, "Concat", *named, axis=dim % rank)

    def _slice(self, node: fx.Node, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
        start, end = start or 0, 2**62 if end is None or isinstance(end, Rows) else end
        ends = [self.graph.constant([number]) for number in (start, end, dim % len(x.shape), step)]
        return self._made(node, "Slice", self._name(x), *ends)

    def _pieces(self, node: fx.Node, x: Any, dim: int) -> list[Value]:
        """The parts that `split` and its relatives give, each a slice."""
        dim, start, parts = dim % len(x.shape), 0, []
        for meta in node.meta["val"]:
            end = start + meta.shape[dim]
            ends = [self.graph.constant([number]) for number in (start, end, dim, 1)]
            shape = tuple(None if isinstance(size, SymInt) else size for size in meta.shape)
            parts.append(Value(self.graph.op("Slice", self._name(x), *ends), meta.dtype, shape))
            start = end
        return parts

    def _chunk(self, node: fx.Node, x: Any, count: int, dim: int = 0) -> list[Value]:
        return self._pieces(node, x, dim)

    def _split(self, node: fx.Node, x: Any, sizes: Any, dim: int = 0) -> list[Value]:
        return self._pieces(node, x, dim)

    _split_with_sizes = _split

    def _unbind(self, node: fx.Node, x: Any, dim: int = 0) -> list[Value]:
        dim %= len(x.shape)
        shape = (*x.shape[:dim], *x.shape[dim + 1 :])
        named = (
            self.graph.op("Gather", self._name(x), self.graph.constant(i, torch.int64), axis=dim)
            for i in range(x.shape[dim])
        )
        return [Value(name, x.dtype, shape) for name in named]

    def _select(self, node: fx.Node, x: Any, dim: int, index: int) -> Value:
        return self._made(
            node, "Gather", self._name(x), self.graph.constant(index, torch.int64), axis=dim % len(x.shape)
        )

    def _index_select(self, node: fx.Node, x: Any, dim: int, index: Any) -> Value:
        return self._made(node, "Gather", self._name(x), self._name(index, torch.int64), axis=dim % len(x.shape))

    def _embedding(self, node: fx.Node, table: Any, codes: Any, *_: Any, **__: Any) -> Value:
        return self._made(node, "Gather", self._name(table), self._name(codes, torch.int64), axis=0)

    def _gather(self, node: fx.Node, x: Any, dim: int, index: Any, **_: Any) -> Value:
        return self._made(
            node, "GatherElements", self._name(x), self._name(index, torch.int64), axis=dim % len(x.shape)
        )

    def _index(self, node: fx.Node, x: Any, indices: Any) -> Value:
        """x[:, i] and the like: one list of places along one dimension."""
        places = [dim for dim, index in enumerate(indices) if index is not None]
        if len(places) != 1:
            raise CannotTranslate("indexing by several tensors")
        return self._index_select(node, x, places[0], indices[places[0]])

    def _flip(self, node: fx.Node, x: Any, dims: Sequence[int]) -> Value:
        for dim in dims:
            places = torch.arange(x.shape[dim] - 1, -1, -1)
            x = self._index_select(node, x, dim, places)
        return x  # type: ignore[no-any-return]


def _shape(node: fx.Node) -> tuple[int | None, ...]:
    return tuple(None if isinstance(size, SymInt) else int(size) for size in node.meta["val"].shape)


def _broadcast(shapes: Sequence[tuple[int | None, ...]]) -> tuple[int | None, ...]:
    """The shape to which shapes broadcast; a dimension of rows is one of rows."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*padded, strict=True))


def _leaves(nested: Any) -> list[Any]:
    if isinstance(nested, dict):
        nested = list(nested.values())
    if isinstance(nested, (list, tuple)) and not isinstance(nested, (Value, Rows)):
        return [leaf for part in nested for leaf in _leaves(part)]
    return [nested]


def _flat(nested: Any, value: Callable[[Any], Any]) -> list[tuple[Any, Any]]:
    """Each node of an output, with its value."""
    if isinstance(nested, (list, tuple)):
        return [pair for part in nested for pair in _flat(part, value)]
    return [(value(nested), nested)]
