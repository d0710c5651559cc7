"""Tensors without elements, which are removed: exporters leave them where a list or a slice happens to be empty."""

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.node_origins import note_origin
from accel.frontend.onnx_model.onnx_nodes import opset_of, set_attributes, unique_name
from accel.frontend.onnx_model.shape_inference import Inferred, evaluate_node
from accel.frontend.onnx_model.tensor_types import is_static

_SPLIT_IS_INPUT = 13  # the first opset in which Split is told its parts by an input
_MOST_COMPUTED = 1 << 20  # elements of a result that follows from a tensor without elements


def remove_empty_tensors(model: onnx.ModelProto, inferred: Inferred) -> bool:
    """Removes tensors without elements from ``model``, in place; returns whether it had any that nodes make or read.

    Concat and Split lose such parts. A node of such results alone is dropped, and one that reads nothing but constants
    beside such tensors becomes the constant that it makes. Outputs of the model stay as they are.

    Args:
        model: a checked model.
        inferred: its types and values.
    """
    types = {name: info.type.tensor_type for name, info in inferred.types.items() if is_static(info)}
    empty = {name for name, each in types.items() if not all(axis.dim_value for axis in each.shape.dim)}
    empty |= {tensor.name for tensor in model.graph.initializer if not math.prod(tensor.dims)}
    if not any(empty.intersection((*node.input, *node.output)) for node in model.graph.node):
        return False
    return _Removal(model, inferred, types, empty - {""}).run()


class _Removal:
    def __init__(
        self,
        model: onnx.ModelProto,
        inferred: Inferred,
        types: dict[str, onnx.TypeProto.Tensor],
        empty: set[str],
    ) -> None:
        self._model, self._types, self._empty = model, types, empty
        self._constants = dict(inferred.values) | {tensor.name: tensor for tensor in model.graph.initializer}
        self._outputs = {info.name for info in model.graph.output}
        self._taken = {name for node in model.graph.node for name in (*node.input, *node.output)}
        self._taken |= {each.name for each in (*model.graph.input, *model.graph.initializer)}

    def run(self) -> bool:
        """Returns whether anything was changed."""
        graph, kept, changed = self._model.graph, [], False
        for node in graph.node:
            made = [name for name in node.output if name]
            reads = [name for name in node.input if name in self._empty]
            stays = node.op_type == "Constant" or any(name in self._outputs and name in self._empty for name in made)
            if stays or (not reads and self._empty.isdisjoint(made)):
                kept.append(node)
            elif self._empty.issuperset(made):
                changed = True
                for name in made:
                    self._add(np.zeros(self._shape(name), self._dtype(name)), name)
            elif self._change(node, made):
                changed = True
                if node.op_type != "Constant":
                    kept.append(node)
            else:
                kept.append(node)
        kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
        del graph.node[:]
        graph.node.extend(kept)
        return changed

    def _change(self, node: onnx.NodeProto, made: Sequence[str]) -> bool:
        """Let ``node`` do without its tensors that are empty, or make it a Constant whose value is an initializer."""
        if node.op_type == "Concat":
            left = [name for name in node.input if name not in self._empty]
            node.input[:] = left
            if len(left) == 1:
                self._become_identity(node)
            return True
        if node.op_type == "Split":
            self._split(node, [name for name in node.output if name not in self._empty])
            return True
        return self._compute(node, made)

    def _split(self, node: onnx.NodeProto, left: list[str]) -> None:
        axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
        sizes = [self._shape(name)[axis] for name in left]
        node.output[:] = left
        if len(left) == 1:
            node.input[:] = node.input[:1]
            self._become_identity(node)
        elif opset_of(self._model) >= _SPLIT_IS_INPUT:
            set_attributes(node, num_outputs=None)
            name = unique_name(f"{node.name}_sizes", self._taken)
            self._add(np.array(sizes, np.int64), name)
            node.input[:] = [node.input[0], name]
        else:
            set_attributes(node, split=sizes)

    def _become_identity(self, node: onnx.NodeProto) -> None:
        note_origin(node, node)
        node.op_type = "Identity"
        del node.attribute[:]

    def _compute(self, node: onnx.NodeProto, made: Sequence[str]) -> bool:
        """Have a result that depends on constants alone as one."""
        feeds = {}
        for name in filter(None, node.input):
            if name in self._empty:
                feeds[name] = np.zeros(self._shape(name), self._dtype(name))
            elif name in self._constants:
                feeds[name] = array_of(self._constants[name])
            else:
                return False
        if any(math.prod(self._shape(name)) > _MOST_COMPUTED for name in made if name in self._types):
            return False
        try:
            results = evaluate_node(self._model, node, feeds)
        except Exception:  # noqa: BLE001 - onnx raises what it likes; the node stays, and its shape is refused
            return False
        for name, value in results.items():
            self._add(np.asarray(value), name)
        node.op_type = "Constant"
        return True

    def _add(self, value: np.ndarray[tuple[int, ...], np.dtype[np.generic]], name: str) -> None:
        self._constants[name] = numpy_helper.from_array(value, name)
        self._model.graph.initializer.append(self._constants[name])

    def _shape(self, name: str) -> tuple[int, ...]:
        if name in self._types:
            return tuple(axis.dim_value for axis in self._types[name].shape.dim)
        return tuple(self._constants[name].dims)

    def _dtype(self, name: str) -> np.dtype[np.generic]:
        kind = self._types[name].elem_type if name in self._types else self._constants[name].data_type
        return np.dtype(helper.tensor_dtype_to_np_dtype(kind))
