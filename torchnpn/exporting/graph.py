"""An ONNX graph that grows node by node: the same node twice is one node, and what no output needs is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

OPSET = 18
IR_VERSION = 9  # that runtimes read from 2023 on
TYPES = {
    torch.float32: TensorProto.FLOAT,
    torch.float64: TensorProto.DOUBLE,
    torch.int64: TensorProto.INT64,
    torch.bool: TensorProto.BOOL,
}


class Value(NamedTuple):
    """What a node gives."""

    name: str
    dtype: torch.dtype
    shape: tuple[int | None, ...]  # None for the number of rows


class Graph:
    """Nodes, and the constants that they read.

    Args:
        outer: The graph in which this one is a branch; it has the constants of both.
    """

    def __init__(self, outer: Graph | None = None) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._known: dict[Any, str] = {}
        self._root: Graph = self if outer is None else outer._root
        if outer is None:
            self._constants: dict[str, Tensor] = {}
            self._names: dict[Any, str] = {}
            self._count = 0

    def fresh(self) -> str:
        """A name that nobody has."""
        self._root._count += 1
        return f"v{self._root._count}"

    def constant(self, value: Tensor | float | Sequence[int], dtype: torch.dtype | None = None) -> str:
        """The name of a constant; equal ones are one."""
        tensor = torch.as_tensor(value, dtype=dtype).detach().cpu().contiguous()
        key = tensor.dtype, tuple(tensor.shape), tensor.numpy().tobytes()
        root = self._root
        if key not in root._names:
            root._names[key] = name = f"c{len(root._names)}"
            root._constants[name] = tensor
        return root._names[key]

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The name of the output of a node with these inputs ("" for one that is left out)."""
        key = kind, inputs, tuple(sorted((name, repr(value)) for name, value in attributes.items()))
        if key not in self._known:
            name = self.fresh()
            self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
            self._known[key] = name
        return self._known[key]

    def several(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        """A node with several outputs, under names that are `fresh`."""
        self.nodes.append(helper.make_node(kind, list(inputs), list(outputs), **attributes))

    def branch(self, outputs: Sequence[str]) -> onnx.GraphProto:
        """This graph as a branch of its outer one."""
        nodes = _needed(self.nodes, outputs)
        names = [self.fresh() for _ in outputs]  # what a branch gives must be made in it
        nodes += [helper.make_node("Identity", [name], [own]) for name, own in zip(outputs, names, strict=True)]
        infos = [helper.make_empty_tensor_value_info(name) for name in names]
        return helper.make_graph(nodes, "branch", [], infos)

    def model(self, inputs: Sequence[Value], outputs: dict[str, Value], producer: str, about: dict[str, str]) -> Any:
        """The whole as a model file's content.

        Args:
            inputs: Of the graph.
            outputs: What it gives, by the name under which it gives it.
            producer: Who has written it.
            about: Its metadata.
        """
        nodes = [helper.make_node("Identity", [value.name], [name]) for name, value in outputs.items()]
        nodes = _needed([*self.nodes, *nodes], list(outputs))
        read = {name for node in nodes for name in _reads(node)}
        constants = [
            numpy_helper.from_array(np.asarray(tensor.numpy()), name)
            for name, tensor in self._constants.items()
            if name in read
        ]
        named = [_info(value.name, value) for value in inputs], [_info(name, value) for name, value in outputs.items()]
        graph = helper.make_graph(nodes, "torchnpn", *named, initializer=constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name=producer
        )
        helper.set_model_props(model, about)
        onnx.checker.check_model(model)
        return model


def _info(name: str, value: Value) -> onnx.ValueInfoProto:
    shape = ["rows" if size is None else size for size in value.shape]
    return helper.make_tensor_value_info(name, TYPES[value.dtype], shape)


def _reads(node: onnx.NodeProto) -> set[str]:
    """Names that a node reads, in its branches, too."""
    found = set(node.input)
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            found |= {name for inner in attribute.g.node for name in _reads(inner)}
    return found


def _needed(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> list[onnx.NodeProto]:
    """The nodes without which the outputs cannot be had, in their order."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted & set(node.output):
            kept.append(node)
            wanted |= _reads(node)
    return kept[::-1]
