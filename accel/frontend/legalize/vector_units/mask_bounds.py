"""Bools that the host makes of a model's integer inputs, such as masks, as floats that bound what they select.

Documents know no bool, and vector programs neither store nor load one. So a bool becomes infinity where it holds and
minus infinity where it does not, which minima and maxima take for what they are: ``and`` is the lesser of two, ``not``
is minus one, and what is selected of x and y is the greater of x held below the bound and y held below minus the bound.
The host makes the bounds where the model's first bools are; movement and logic behind them are then of floats.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.node_origins import note_origin
from accel.frontend.onnx_model.onnx_nodes import attribute_of, constants_of, name_nodes, unique_name
from accel.frontend.onnx_model.shape_inference import Shape, known_shapes
from accel.util.arrays import Array

_MOVES = (
    "Expand", "Flatten", "Gather", "GatherND", "Identity", "Reshape", "Slice", "Squeeze", "Tile", "Transpose",
    "Unsqueeze",
)  # fmt: skip
_LARGE = 1 << 20  # elements of a mask whose gathers are not looked into
_LOGIC = ("And", "Not", "Or", "Xor")
_COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def with_mask_bounds(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns ``model`` with bounds in place of such bools: a copy, or itself if they select nothing."""
    integers = any(value.type.tensor_type.elem_type not in _FLOATS for value in model.graph.input)
    if not integers or not any(node.op_type in ("Where", "Cast") for node in model.graph.node):
        return model
    masks = _Masks(model)
    masks.read()
    return masks.rewritten() if masks.selected else model


class _Masks:
    """The nodes of a model, and what becomes of them.

    Attributes:
        selected: how many nodes select by bounds.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.selected = 0
        self._model = model
        self._constants = constants_of(model.graph)
        self._shapes: Mapping[str, Shape] = {}
        named = onnx.ModelProto()
        named.graph.node.extend(model.graph.node)
        name_nodes(named)
        self._given = [*named.graph.node]
        self._taken = {name for node in self._given for name in (node.name, *node.input, *node.output)}
        self._taken |= {*self._constants, *(value.name for value in model.graph.input)}
        types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
        self._integers = {name for name, kind in types.items() if kind not in _FLOATS}
        self._bools = {name for name, kind in types.items() if kind == TensorProto.BOOL}
        self._bounds: dict[str, str] = {}
        self._spare: set[str] = set()  # what goes if nobody reads it any more
        self._made: list[onnx.NodeProto] = []
        self._values: list[TensorProto] = []
        self._node = onnx.NodeProto()

    def read(self) -> None:
        """Take in all nodes, in their order."""
        for node in self._given:
            self._node = node
            if not (self._selects(node) or self._is_cast_to_float(node)):
                self._made.append(node)
                self._follow(node)

    def rewritten(self) -> onnx.ModelProto:
        """Returns the model of what is made, without what nobody reads any more."""
        made = onnx.ModelProto()
        made.CopyFrom(self._model)
        wanted, kept = {value.name for value in made.graph.output}, list[onnx.NodeProto]()
        for node in reversed(self._made):
            if not wanted.isdisjoint(node.output) or self._spare.isdisjoint(node.output):
                wanted.update(node.input)
                kept.append(node)
        del made.graph.node[:]
        made.graph.node.extend(reversed(kept))
        made.graph.initializer.extend(value for value in self._values if value.name in wanted)
        return made

    def _follow(self, node: onnx.NodeProto) -> None:
        """Note what a node makes of integers, and its bounds, if it makes bools."""
        data = [name for name in node.input if name and not self._is_integer_constant(name)]
        if not data or not self._integers.issuperset(data) or self._makes_floats(node):
            return
        self._integers.update(node.output)
        self._spare.update(node.output)
        if node.op_type in _MOVES and node.input[0] in self._bools:
            self._bools.update(node.output)
            if node.input[0] in self._bounds:
                self._bounds[node.output[0]] = self._moved(node)
        elif node.op_type in _LOGIC and all(self._bound_of(name) for name in node.input):
            self._bools.update(node.output)
            self._bounds[node.output[0]] = self._logical(node)
        elif node.op_type in (*_LOGIC, *_COMPARISONS) or attribute_of(node, "to", None) == TensorProto.BOOL:
            self._bools.update(node.output)
            known = self._bounds.get(node.input[0]) if node.op_type == "Cast" else None
            self._bounds[node.output[0]] = known or self._bounded(node.output[0])

    def _is_integer_constant(self, name: str) -> bool:
        return name in self._constants and self._constants[name].data_type not in _FLOATS

    def _makes_floats(self, node: onnx.NodeProto) -> bool:
        return node.op_type == "Cast" and attribute_of(node, "to", TensorProto.FLOAT) in _FLOATS

    def _bound_of(self, name: str) -> str:
        """The bounds of a bool, made of one that the model is given or has as a constant; empty if there are none."""
        if name not in self._bounds:
            if name in self._constants and self._constants[name].data_type == TensorProto.BOOL:
                held = np.where(array_of(self._constants[name]), np.float32(math.inf), np.float32(-math.inf))
                self._bounds[name] = self._constant(held)
            elif name in self._bools:
                self._bounds[name] = self._bounded(name)
        return self._bounds.get(name, "")

    def _bounded(self, name: str) -> str:
        """The bounds that the host makes of bools."""
        ends = [self._constant(np.array(each, np.float32)) for each in (math.inf, -math.inf)]
        return self._emit("Where", name, *ends)

    def _moved(self, node: onnx.NodeProto) -> str:
        """The bounds of bools that are moved; a gather of all elements in their order only changes the shape."""
        bounds, shape = self._bounds[node.input[0]], self._gathered_whole(node)
        if shape is not None:
            return self._emit("Reshape", bounds, self._constant(np.array(shape, np.int64)))
        kept = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        return self._emit(node.op_type, bounds, *node.input[1:], **kept)

    def _gathered_whole(self, node: onnx.NodeProto) -> Shape | None:
        """The shape of what a gather at constant places makes, if that is all elements in their order; else None."""
        places = self._constants.get(node.input[1]) if node.op_type in ("Gather", "GatherND") else None
        if places is None:
            return None
        self._shapes = self._shapes or known_shapes(self._model)
        shape = self._shapes.get(node.input[0])
        if not shape or math.prod(shape) > _LARGE:
            return None
        numbers, at = np.arange(math.prod(shape)).reshape(shape), array_of(places)
        if node.op_type == "Gather":
            found = numbers.take(at, attribute_of(node, "axis", 0), mode="clip")
        elif attribute_of(node, "batch_dims", 0) == 0:
            inside = np.clip(at, 0, np.array(shape[: at.shape[-1]]) - 1)
            found = numbers[tuple(np.moveaxis(inside, -1, 0))]
        else:
            return None
        whole = found.size == numbers.size and bool((found.reshape(-1) == numbers.reshape(-1)).all())
        return tuple(map(int, found.shape)) if whole else None

    def _logical(self, node: onnx.NodeProto) -> str:
        """The bounds of what a node of logic makes."""
        first, *others = (self._bound_of(name) for name in node.input)
        if node.op_type == "Not":
            return self._emit("Neg", first)
        if node.op_type != "Xor":
            return self._emit("Min" if node.op_type == "And" else "Max", first, *others)
        (second,) = others
        one, other = (self._emit("Min", a, self._emit("Neg", b)) for a, b in ((first, second), (second, first)))
        return self._emit("Max", one, other)

    def _selects(self, node: onnx.NodeProto) -> bool:
        """Put minima and maxima in place of a selection of floats by bools that have bounds; False: it is none."""
        if node.op_type != "Where" or node.input[0] not in self._bools or not self._bound_of(node.input[0]):
            return False
        if any(self._is_integer_constant(name) or name in self._integers for name in node.input[1:]):
            return False
        self._select(node.input[0], node.input[1:], node.output[0])
        return True

    def _is_cast_to_float(self, node: onnx.NodeProto) -> bool:
        """Put the same in place of a Cast of such bools to float32; False: it is none."""
        if (
            node.op_type != "Cast"
            or attribute_of(node, "to", 0) != TensorProto.FLOAT
            or node.input[0] not in self._bools
        ):
            return False
        ends = [self._constant(np.array(each, np.float32)) for each in (1, 0)]
        self._bound_of(node.input[0])
        self._select(node.input[0], ends, node.output[0])
        return True

    def _select(self, condition: str, ends: Sequence[str], name: str) -> None:
        """Emit what a condition selects; of an end that is infinite one step is left, of two numbers two."""
        self.selected += 1
        one, other = ends
        then, otherwise = (self._number(each) for each in ends)
        bound = self._bounds[condition]
        if otherwise == -math.inf:
            self._emit("Min", one, bound, name=name)
        elif then == math.inf:
            self._emit("Max", other, bound, name=name)
        elif then is not None and otherwise is not None and otherwise <= then:
            self._emit("Max", self._emit("Min", bound, one), other, name=name)
        elif otherwise == math.inf:
            self._emit("Max", one, self._emit("Neg", bound), name=name)
        elif then == -math.inf:
            self._emit("Min", other, self._emit("Neg", bound), name=name)
        else:
            self._emit(
                "Max", self._emit("Min", one, bound), self._emit("Min", other, self._emit("Neg", bound)), name=name
            )

    def _number(self, name: str) -> float | None:
        """The one number that a constant is; None of all else."""
        known = self._constants.get(name) or next((each for each in self._values if each.name == name), None)
        plain = known is not None and len(known.dims) <= 1 == math.prod(known.dims)
        return float(array_of(known).reshape(-1)[0]) if known is not None and plain else None

    def _emit(self, op: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Emit a node, a part of the node at hand, and return the name of its result."""
        out = name or unique_name(f"{self._node.name}_bound", self._taken)
        label = unique_name(f"{self._node.name}_{op}_bound", self._taken)
        self._made.append(helper.make_node(op, inputs, [out], name=label, **attributes))
        note_origin(self._made[-1], self._node)
        if not name:
            self._spare.add(out)
        return out

    def _constant(self, value: Array) -> str:
        name = unique_name("bound_constant", self._taken)
        self._values.append(numpy_helper.from_array(value, name))
        return name
