"""Einsum of two tensors as what it is: movement, one product of matrices or of stacks of them, and movement.

Labels are of four sorts: those of both tensors and the result count products (``batch``), those of both alone are
summed, and those of one tensor and the result are rows or columns. Einsums of other sorts stay as they are: of one or
three tensors, with a label twice in one of them, summed over one alone, or without rows and columns.
"""

import itertools
import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.node_origins import note_origin
from accel.frontend.onnx_model.onnx_nodes import attribute_of, unique_name
from accel.frontend.onnx_model.shape_inference import Shape

_OPERANDS = 2
_ELLIPSIS = "..."


def split_einsums(model: onnx.ModelProto, shapes: dict[str, Shape]) -> None:
    """Replaces each Einsum of ``model`` that is one product, in place, by nodes that note that they are parts of it.

    Args:
        model: a checked one, whose nodes have names.
        shapes: of its tensors.
    """
    if all(node.op_type != "Einsum" for node in model.graph.node):
        return
    taken = {name for node in model.graph.node for name in (node.name, *node.input, *node.output)}
    taken |= {tensor.name for tensor in model.graph.initializer}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        product = _product(node, shapes) if node.op_type == "Einsum" else None
        if product is None:
            model.graph.node.append(node)
        else:
            _Writer(model, node, product, constants, taken).write()
    used = {name for node in model.graph.node for name in node.input} | {output.name for output in model.graph.output}
    replaced = {name for node in nodes if node.op_type == "Einsum" for name in node.input} - used
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in replaced]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)


def einsum_macs(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> int:
    """Returns the multiply-accumulates of an Einsum of two tensors, none where nothing is summed."""
    given = [shapes[name] for name in node.input]
    read = _labels(node, given)
    if read is None:
        return 0
    operands, result = read
    extents: dict[str, int] = {}
    for label, extent in zip("".join(operands), itertools.chain(*given), strict=True):
        extents[label] = max(extent, extents.get(label, 1))
    return math.prod(extents.values()) if set(extents) - set(result) else 0


@dataclass(frozen=True)
class _Product:
    """The labels of an Einsum, by sort and in the order of the result, and how long each axis is."""

    operands: tuple[str, str]
    result: str
    batch: str
    summed: str
    rows: str
    columns: str
    extents: dict[str, int]

    def swapped(self) -> "_Product":
        """Returns it with the operands changed over."""
        first, second = self.operands
        return _Product((second, first), self.result, self.batch, self.summed, self.columns, self.rows, self.extents)

    def sizes(self, labels: str) -> list[int]:
        return [self.extents[label] for label in labels]


def _product(node: onnx.NodeProto, shapes: dict[str, Shape]) -> _Product | None:
    """The labels of ``node``; None if it is not one product of matrices."""
    given = [shapes[name] for name in node.input]
    read = _labels(node, given)
    if read is None:
        return None
    (first, second), result = read
    extents: dict[str, int] = {}
    for label, extent in zip(first + second, itertools.chain(*given), strict=True):
        if extents.setdefault(label, extent) != extent:
            return None  # one of them is broadcast
    both = set(first) & set(second)
    summed = "".join(label for label in first if label in both and label not in result)
    once = all(len(set(labels)) == len(labels) for labels in (first, second, result))
    if not once or not summed or set(result) != (set(first) | set(second)) - set(summed) or 0 in extents.values():
        return None
    batch = "".join(label for label in result if label in both)
    rows, columns = (
        "".join(label for label in result if label in own and label not in both) for own in (first, second)
    )
    if not rows and not columns:
        return None  # sums of elements, each of which would be a matrix of one
    return _Product((first, second), result, batch, summed, rows, columns, extents)


def _labels(node: onnx.NodeProto, shapes: Sequence[Shape]) -> tuple[tuple[str, str], str] | None:
    """The labels of both operands and of the result, an ellipsis spelt out; None if there are not two operands."""
    equation = attribute_of(node, "equation", b"").decode().replace(" ", "")
    before, arrow, result = equation.partition("->")
    operands = before.split(",")
    if len(operands) != _OPERANDS or len(shapes) != _OPERANDS:
        return None
    free = [label for label in string.ascii_letters if label not in equation]
    spelt = ""
    for at, (labels, shape) in enumerate(zip(operands, shapes, strict=True)):
        if _ELLIPSIS in labels:
            beyond = len(shape) - len(labels) + len(_ELLIPSIS)
            if beyond > len(free) or (spelt and len(spelt) != beyond):
                return None
            spelt = "".join(free[:beyond])
            operands[at] = labels.replace(_ELLIPSIS, spelt)
    if not arrow:
        all_labels = "".join(operands)
        named = sorted(label for label in set(all_labels) - set(spelt) if all_labels.count(label) == 1)
        return (operands[0], operands[1]), spelt + "".join(named)
    return (operands[0], operands[1]), result.replace(_ELLIPSIS, spelt)


class _Writer:
    """Writes the nodes of one Einsum."""

    def __init__(
        self,
        model: onnx.ModelProto,
        node: onnx.NodeProto,
        product: _Product,
        constants: dict[str, onnx.TensorProto],
        taken: set[str],
    ) -> None:
        self._model, self._node, self._product = model, node, product
        self._constants, self._taken = constants, taken

    def write(self) -> None:
        """Write them; a constant becomes the second matrix, as the weights of a dense layer are."""
        product, names = self._product, list(self._node.input)
        if names[0] in self._constants and names[1] not in self._constants and not product.batch:
            product, names = product.swapped(), names[::-1]
        stacked, summed = product.sizes(product.batch), math.prod(product.sizes(product.summed))
        rows, columns = product.sizes(product.rows), math.prod(product.sizes(product.columns))
        lines = [math.prod(rows)] if product.batch or not rows else rows  # of one matrix there may be lots
        first = self._laid_out(
            names[0], product.operands[0], product.batch + product.rows + product.summed, [*stacked, *lines, summed]
        )
        second = self._laid_out(
            names[1], product.operands[1], product.batch + product.summed + product.columns, [*stacked, summed, columns]
        )
        made = self._emit("MatMul", [first, second])
        order = product.batch + product.rows + product.columns
        self._moved(made, [*stacked, *lines, columns], order, product.result)

    def _laid_out(self, name: str, labels: str, order: str, shape: list[int]) -> str:
        """An operand with its axes in another order, and some of them as one."""
        axes = [labels.index(label) for label in order]
        sizes = self._product.sizes(order)
        if name in self._constants:
            value = array_of(self._constants[name]).transpose(axes).reshape(shape)
            return self._constant(np.ascontiguousarray(value))
        if axes != sorted(axes):
            name = self._emit("Transpose", [name], perm=axes)
        return name if shape == sizes else self._reshaped(name, shape)

    def _moved(self, name: str, shape: list[int], order: str, result: str) -> None:
        """The product as the result, whose name the last node bears."""
        sizes, axes = self._product.sizes(order), [order.index(label) for label in result]
        if shape != sizes:
            name = self._reshaped(name, sizes)
        if axes != sorted(axes):
            self._emit("Transpose", [name], perm=axes)
        self._model.graph.node[-1].output[0] = self._node.output[0]

    def _reshaped(self, name: str, shape: list[int]) -> str:
        return self._emit("Reshape", [name, self._constant(np.array(shape, np.int64))])

    def _constant(self, value: np.ndarray[Any, np.dtype[Any]]) -> str:
        name = unique_name(f"{self._node.name}_constant", self._taken)
        self._model.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def _emit(self, op: str, inputs: list[str], **attributes: Any) -> str:
        out = unique_name(f"{self._node.name}_{op}", self._taken)
        name = unique_name(f"{self._node.name}_{op}_node", self._taken)
        made = helper.make_node(op, inputs, [out], name=name, **attributes)
        note_origin(made, self._node)
        self._model.graph.node.append(made)
        return out
