"""Linear interpolation as sums of slices, which vector programs compute where a Resize would be the host's.

Of an axis that is enlarged by a whole number all results between two neighbours are one sum, whichever neighbours these
are: the first of them, and what the second differs from it times how near that is. Results outside of the first and the
last element are those again. What only one node quantises is quantised before it is moved to its place.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from accel.frontend.legalize.vector_units.node_writer import NodeWriter, Writing, with_written
from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.onnx_nodes import attribute_of, constants_of
from accel.frontend.onnx_model.shape_inference import Shape, known_shapes
from accel.util.arrays import Array, Float32

_FEW_CHANNELS = 8  # that are rows too short to move
_CHANNELS, _IMAGE = 1, 3  # the axis of channels, and the least rank of what has them
_SCALES = 2  # the place of the scales among the inputs


def with_interpolations(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns ``model`` with sums in place of what is enlarged linearly by whole numbers; itself if nothing is."""
    if not any(node.op_type == "Resize" for node in model.graph.node):
        return model
    shapes, constants = known_shapes(model, onnx.TensorProto.FLOAT), constants_of(model.graph)
    readers: dict[str, list[onnx.NodeProto | None]] = {value.name: [None] for value in model.graph.output}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    writings: list[Writing | None] = []
    quantised = set[str]()  # what is there already, once the node that makes it comes
    for node in model.graph.node:
        found = _interpolation(node, shapes, constants)
        if found is None:
            writings.append(None if quantised.isdisjoint(node.output) else _nothing)
            continue
        reader, *others = readers.get(node.output[0], [None])
        alone = reader if not others and reader is not None and _quantises(reader, constants) else None
        quantised.update([] if alone is None else alone.output)
        writings.append(_Writing(found, alone))
    return with_written(model, writings)


def _nothing(_writer: NodeWriter) -> None:
    """Emit nothing."""


def _quantises(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto]) -> bool:
    """Whether a node quantises a tensor as a whole."""
    scale = constants.get(node.input[1]) if node.op_type == "QuantizeLinear" else None
    return scale is not None and array_of(scale).size == 1


@dataclass(frozen=True)
class _Axis:
    """How an axis of ``size`` elements is enlarged by a ``factor``.

    The first one is there ``before`` times ahead of the results between neighbours, and the last one ``after`` times
    behind; ``nearness`` is what results between neighbours have of the second.
    """

    axis: int
    size: int
    factor: int
    before: int
    nearness: Float32

    @property
    def after(self) -> int:
        return self.factor - self.before


@dataclass(frozen=True)
class _Interpolation:
    """The axes that a Resize of a tensor of ``shape`` enlarges."""

    shape: Shape
    axes: tuple[_Axis, ...]


def _interpolation(
    node: onnx.NodeProto, shapes: Mapping[str, Shape], constants: Mapping[str, onnx.TensorProto]
) -> _Interpolation | None:
    """What a Resize is; None of what is none, or another one."""
    if node.op_type != "Resize" or attribute_of(node, "mode", b"nearest") != b"linear":
        return None
    given, made = shapes.get(node.input[0]), shapes.get(node.output[0])
    plain = attribute_of(node, "keep_aspect_ratio_policy", b"stretch") == b"stretch"
    if not given or not made or not plain or attribute_of(node, "antialias", 0):
        return None
    scales = constants.get(node.input[_SCALES]) if len(node.input) > _SCALES else None
    stated = np.zeros(0) if scales is None else array_of(scales).reshape(-1)
    places = [each % len(given) for each in attribute_of(node, "axes", range(len(given)))]
    ratios = dict(zip(places, map(float, stated), strict=True)) if len(stated) == len(places) else {}
    axes = list[_Axis]()
    for axis, (size, extent) in enumerate(zip(given, made, strict=True)):
        if not size or extent % size or ratios.get(axis, extent // size) != extent // size:
            return None
        if extent > size:
            found = _axis(
                axis, size, extent // size, attribute_of(node, "coordinate_transformation_mode", b"half_pixel")
            )
            if found is None:
                return None
            axes.append(found)
    return _Interpolation(given, tuple(axes)) if axes else None


def _axis(axis: int, size: int, factor: int, coordinates: bytes) -> _Axis | None:
    """How an axis is enlarged; None where results do not lie alike between all neighbours."""
    places = np.arange(factor)
    if coordinates in (b"half_pixel", b"pytorch_half_pixel"):
        at, before = (places + 0.5) / factor - 0.5, factor // 2
    elif coordinates == b"asymmetric":
        at, before = places / factor, 0
    else:
        return None
    nearness = np.roll(at - np.floor(at), -before)  # the last ones of an element come first, then those of the next
    return _Axis(axis, size, factor, before, nearness.astype(np.float32))


class _Writing:
    """Emits an interpolation, channels last where there are enough of them, axis by axis.

    Args:
        found: the interpolation.
        quantise: the node that quantises what it makes, in whose place it is too; None if there is none.
    """

    def __init__(self, found: _Interpolation, quantise: onnx.NodeProto | None) -> None:
        self._found, self._quantise = found, quantise

    def __call__(self, writer: NodeWriter) -> None:
        """Emits it."""
        shape, rank = self._found.shape, len(self._found.shape)
        last = rank >= _IMAGE and shape[_CHANNELS] >= _FEW_CHANNELS
        order = [0, *range(2, rank), _CHANNELS] if last else list(range(rank))
        data, extents = writer.node.input[0], [shape[axis] for axis in order]
        data = writer.emit("Transpose", data, perm=order) if last else data
        for number, axis in enumerate(self._found.axes):
            place, ends = order.index(axis.axis), number == len(self._found.axes) - 1
            quantise = self._quantised if ends else _as_it_is
            parts = [each for each in _parts(writer, data, extents, place, axis, quantise) if each]
            name = "" if last or not ends else self._name(writer)
            data = parts[0] if len(parts) == 1 and not name else writer.emit("Concat", *parts, name=name, axis=place)
            extents[place] *= axis.factor
        if last:
            back = [order.index(axis) for axis in range(rank)]
            writer.emit("Transpose", data, name=self._name(writer), perm=back)

    def _name(self, writer: NodeWriter) -> str:
        return str((self._quantise or writer.node).output[0])

    def _quantised(self, writer: NodeWriter, data: str) -> str:
        node = self._quantise
        return data if node is None else writer.emit("QuantizeLinear", data, *node.input[1:])


def _as_it_is(_writer: NodeWriter, data: str) -> str:
    return data


def _parts(
    writer: NodeWriter,
    data: str,
    extents: Sequence[int],
    place: int,
    axis: _Axis,
    quantise: Callable[[NodeWriter, str], str],
) -> list[str]:
    """Emit the results along an axis of data of these extents, in parts: ahead of, between, and behind its elements.

    ``quantise`` emits what becomes of floats before they are moved.
    """

    def elements(begin: int, end: int) -> str:
        return writer.sliced(data, place, begin, end)

    def again(at: int, count: int) -> str:
        wide = [*extents[:place], count, *extents[place + 1 :]]
        if not count:
            return ""
        return writer.emit("Expand", quantise(writer, elements(at, at + 1)), writer.constant(np.array(wide)))

    def spread(each: str, count: int) -> str:
        return writer.reshaped(each, [*extents[:place], axis.size - 1, count, *extents[place + 1 :]])

    if axis.size == 1:
        return [again(0, axis.factor)]
    nearness: Array = axis.nearness.reshape([axis.factor if at == place + 1 else 1 for at in range(len(extents) + 1)])
    one, other = spread(elements(0, axis.size - 1), 1), spread(elements(1, axis.size), 1)
    further = writer.emit("Mul", writer.emit("Sub", other, one), writer.constant(nearness))
    between = writer.emit("Add", further, one)
    flat = [*extents[:place], (axis.size - 1) * axis.factor, *extents[place + 1 :]]
    return [again(0, axis.before), writer.reshaped(quantise(writer, between), flat), again(axis.size - 1, axis.after)]
