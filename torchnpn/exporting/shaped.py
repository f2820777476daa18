"""Operations of torch that change shapes, or go along a dimension, in ONNX: one method each, by torch's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import SymInt, Tensor, fx

from torchnpn.exporting.graph import TYPES, Graph, Value


class CannotTranslate(ValueError):
    """An operation of torch for which there is no form here."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"export has no ONNX form for {what}, which a module of the network uses. Write that module by other "
            "operations, or export to a path that ends in .pt2, which holds every operation of torch."
        )


class Shaped:
    """Methods named after torch's operations; each takes the node, and its arguments in the shapes that torch has."""

    graph: Graph

    def name(self, value: Any, dtype: torch.dtype | None = None) -> str:
        """The name of a value or of a constant, in a type."""
        if isinstance(value, Value):
            return value.name if dtype in (None, value.dtype) else self.cast(value, dtype).name
        return self.graph.constant(value, dtype or getattr(value, "dtype", None))

    def cast(self, value: Value, dtype: torch.dtype) -> Value:
        """A value in a type."""
        if value.dtype == dtype:
            return value
        return Value(self.graph.op("Cast", value.name, to=TYPES[dtype]), dtype, value.shape)

    def _made(self, node: fx.Node, kind: str, *inputs: str, **attributes: Any) -> Value:
        """A node whose result has torch's type and shape."""
        return Value(self.graph.op(kind, *inputs, **attributes), node.meta["val"].dtype, shape_of(node))

    def op_matmul(self, node: fx.Node, a: Any, b: Any) -> Value:
        dtype = node.meta["val"].dtype
        return self._made(node, "MatMul", self.name(a, dtype), self.name(b, dtype))

    op_mm = op_bmm = op_matmul

    def op_linear(self, node: fx.Node, x: Any, weight: Tensor, bias: Any = None) -> Value:
        product = self._made(node, "MatMul", self.name(x), self.name(weight.T))
        return product if bias is None else self._made(node, "Add", product.name, self.name(bias))

    def _reduced(self, kind: str, node: fx.Node, x: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Value:
        rank = len(x.shape)
        dims = range(rank) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
        axes = self.graph.constant([d % rank for d in dims])
        x = self.cast(x, node.meta["val"].dtype) if kind != "ReduceMax" and x.dtype != torch.bool else x
        name = self.name(x, torch.int64 if x.dtype == torch.bool else None)
        return self._made(node, kind, name, axes, keepdims=int(keepdim))

    def op_sum(self, node: fx.Node, x: Any, *args: Any, **kwargs: Any) -> Value:
        return self._reduced("ReduceSum", node, x, *args, **kwargs)

    def op_mean(self, node: fx.Node, x: Any, *args: Any, **kwargs: Any) -> Value:
        return self._reduced("ReduceMean", node, x, *args, **kwargs)

    def op_amax(self, node: fx.Node, x: Any, *args: Any, **kwargs: Any) -> Value:
        return self._reduced("ReduceMax", node, x, *args, **kwargs)

    def op_amin(self, node: fx.Node, x: Any, *args: Any, **kwargs: Any) -> Value:
        return self._reduced("ReduceMin", node, x, *args, **kwargs)

    def op_any(self, node: fx.Node, x: Any, *args: Any, **kwargs: Any) -> Value:
        return self._of_truth("ReduceMax", node, x, *args, **kwargs)

    def op_all(self, node: fx.Node, x: Any, *args: Any, **kwargs: Any) -> Value:
        return self._of_truth("ReduceMin", node, x, *args, **kwargs)

    def _of_truth(self, kind: str, node: fx.Node, x: Any, dim: int | None = None, keepdim: bool = False) -> Value:
        rank = len(x.shape)
        axes = self.graph.constant(list(range(rank)) if dim is None else [dim % rank])
        number = self.graph.op(kind, self.name(x, torch.float32), axes, keepdims=int(keepdim))
        return self._made(node, "Greater", number, self.graph.constant(0.0, torch.float32))

    def op_cumsum(self, node: fx.Node, x: Any, dim: int, **_: Any) -> Value:
        return self._made(node, "CumSum", self.name(x, node.meta["val"].dtype), self.graph.constant(dim % len(x.shape)))

    def op_softmax(self, node: fx.Node, x: Any, dim: int, *_: Any, **__: Any) -> Value:
        return self._made(node, "Softmax", self.name(x), axis=dim)

    def op_logsumexp(self, node: fx.Node, x: Any, dim: Any, keepdim: bool = False) -> Value:
        dims = [dim] if isinstance(dim, int) else dim
        return self._made(
            node,
            "ReduceLogSumExp",
            self.name(x),
            self.graph.constant([d % len(x.shape) for d in dims]),
            keepdims=int(keepdim),
        )

    def op_view(self, node: fx.Node, x: Any, sizes: Any, *_: Any) -> Value:
        wanted = shape_of(node)
        shape = self.graph.constant([-1 if size is None else size for size in wanted], torch.int64)
        return self._made(node, "Reshape", self.name(x), shape)

    op_reshape = op_flatten = op_unflatten = op_view

    def op_unsqueeze(self, node: fx.Node, x: Any, dim: int) -> Value:
        rank = len(x.shape) + 1
        return self._made(node, "Unsqueeze", self.name(x), self.graph.constant([dim % rank]))

    def op_squeeze(self, node: fx.Node, x: Any, dim: Any) -> Value:
        dims = [dim] if isinstance(dim, int) else dim
        return self._made(node, "Squeeze", self.name(x), self.graph.constant([d % len(x.shape) for d in dims]))

    def op_permute(self, node: fx.Node, x: Any, dims: Sequence[int]) -> Value:
        return self._made(node, "Transpose", self.name(x), perm=[d % len(x.shape) for d in dims])

    def op_transpose(self, node: fx.Node, x: Any, first: int, second: int) -> Value:
        order = list(range(len(x.shape)))
        order[first], order[second] = order[second], order[first]
        return self.op_permute(node, x, order)

    def op_numpy_T(self, node: fx.Node, x: Any) -> Value:
        return self.op_permute(node, x, list(range(len(x.shape)))[::-1])

    def op_mT(self, node: fx.Node, x: Any) -> Value:
        return self.op_transpose(node, x, -2, -1)

    def op_movedim(self, node: fx.Node, x: Any, source: int, destination: int) -> Value:
        order = list(range(len(x.shape)))
        order.insert(destination % len(order), order.pop(source % len(order)))
        return self.op_permute(node, x, order)

    def op_cat(self, node: fx.Node, parts: Any, dim: int = 0) -> Value:
        dtype = node.meta["val"].dtype
        return self._made(node, "Concat", *(self.name(part, dtype) for part in parts), axis=dim)

    def op_stack(self, node: fx.Node, parts: Any, dim: int = 0) -> Value:
        rank = len(node.meta["val"].shape)
        axis = self.graph.constant([dim % rank])
        dtype = node.meta["val"].dtype
        named = [self.graph.op("Unsqueeze", self.name(part, dtype), axis) for part in parts]
        return self._made(node, "Concat", *named, axis=dim % rank)

    def op_slice(self, node: fx.Node, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
        start, end = start or 0, end if isinstance(end, int) else 2**62  # all rows
        ends = [self.graph.constant([number]) for number in (start, end, dim % len(x.shape), step)]
        return self._made(node, "Slice", self.name(x), *ends)

    def _pieces(self, node: fx.Node, x: Any, dim: int) -> list[Value]:
        """The parts that `split` and its relatives give, each a slice."""
        dim, start, parts = dim % len(x.shape), 0, []
        for meta in node.meta["val"]:
            end = start + meta.shape[dim]
            ends = [self.graph.constant([number]) for number in (start, end, dim, 1)]
            shape = tuple(None if isinstance(size, SymInt) else size for size in meta.shape)
            parts.append(Value(self.graph.op("Slice", self.name(x), *ends), meta.dtype, shape))
            start = end
        return parts

    def op_chunk(self, node: fx.Node, x: Any, count: int, dim: int = 0) -> list[Value]:
        return self._pieces(node, x, dim)

    def op_split(self, node: fx.Node, x: Any, sizes: Any, dim: int = 0) -> list[Value]:
        return self._pieces(node, x, dim)

    op_split_with_sizes = op_split

    def op_unbind(self, node: fx.Node, x: Any, dim: int = 0) -> list[Value]:
        dim %= len(x.shape)
        shape = (*x.shape[:dim], *x.shape[dim + 1 :])
        named = (
            self.graph.op("Gather", self.name(x), self.graph.constant(i, torch.int64), axis=dim)
            for i in range(x.shape[dim])
        )
        return [Value(name, x.dtype, shape) for name in named]

    def op_select(self, node: fx.Node, x: Any, dim: int, index: int) -> Value:
        return self._made(
            node, "Gather", self.name(x), self.graph.constant(index, torch.int64), axis=dim % len(x.shape)
        )

    def op_index_select(self, node: fx.Node, x: Any, dim: int, index: Any) -> Value:
        return self._made(node, "Gather", self.name(x), self.name(index, torch.int64), axis=dim % len(x.shape))

    def op_embedding(self, node: fx.Node, table: Any, codes: Any, *_: Any, **__: Any) -> Value:
        return self._made(node, "Gather", self.name(table), self.name(codes, torch.int64), axis=0)

    def op_gather(self, node: fx.Node, x: Any, dim: int, index: Any, **_: Any) -> Value:
        return self._made(node, "GatherElements", self.name(x), self.name(index, torch.int64), axis=dim % len(x.shape))

    def op_index(self, node: fx.Node, x: Any, indices: Any) -> Value:
        """x[:, i] and the like: one list of places along one dimension."""
        places = [dim for dim, index in enumerate(indices) if index is not None]
        if len(places) != 1:
            raise CannotTranslate("indexing by several tensors")
        return self.op_index_select(node, x, places[0], indices[places[0]])

    def op_flip(self, node: fx.Node, x: Any, dims: Sequence[int]) -> Value:
        for dim in dims:
            places = torch.arange(x.shape[dim] - 1, -1, -1)
            x = self.op_index_select(node, x, dim, places)
        return x  # type: ignore[no-any-return]


def shape_of(node: fx.Node) -> tuple[int | None, ...]:
    """The shape that torch has for a node; None for the number of rows."""
    return tuple(None if isinstance(size, SymInt) else int(size) for size in node.meta["val"].shape)
