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

from torchnpn.exporting.graph import Graph, Value
from torchnpn.exporting.operators import ELEMENTWISE, Writer
from torchnpn.exporting.shaped import CannotTranslate, Shaped, shape_of

Handler = Callable[..., Any]
_IGNORED = {"_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range_for_size"}
_SAME = {"detach", "clone", "contiguous", "alias", "lift_fresh_copy", "lift_fresh", "broadcast_tensors", "expand"}
_OF_SHAPE = {"zeros": 0, "ones": 1, "full": None, "zeros_like": 0, "ones_like": 1, "full_like": None, "new_zeros": 0}


class Rows(NamedTuple):
    """So many times the number of rows: a size that is known when the graph runs."""

    times: int = 1


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
            env[node] = Value(names[len(inputs)], node.meta["val"].dtype, shape_of(node))
            inputs.append(env[node])
    outputs = _Translator(graph, env, inputs[0]).run(program.graph_module)
    return graph, inputs, outputs


class _Translator(Shaped):
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
            return self.cast(args[0], node.meta["val"].dtype)
        if name in ELEMENTWISE:
            return self._elementwise(name, node, args, kwargs)
        shaped = getattr(self, f"op_{name}", None)
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
        wanted = shape_of(node)
        have = tuple(value.shape)
        if have == wanted or not isinstance(value, (Value, Tensor)):
            return value
        missing = wanted[: len(wanted) - len(have)]
        rest = zip(wanted[len(missing) :], have, strict=True)
        sizes = [*missing, *(size if size != own else 1 for size, own in rest)]  # 1 leaves a dimension as it is
        shape = self._shape_of([Rows() if size is None else size for size in sizes])
        return Value(self.graph.op("Expand", self.name(value), shape), value.dtype, wanted)

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
            self.name(x, torch.bool if is_where and i == 0 else of) if isinstance(x, (Value, Tensor)) else x
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
        self.graph.several("If", [self.name(self._value(condition))], names, **attributes)
        metas = node.meta["val"]
        return [
            Value(name, meta.dtype, tuple(None if isinstance(size, SymInt) else size for size in meta.shape))
            for name, meta in zip(names, metas, strict=True)
        ]


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
