"""Linear interpolation as sums of slices, which vector programs compute where a Resize would be the host's.

All results between two neighbours are one sum: the first of them, and what the second differs from it times how near
that is. Where an axis changes by a whole number, or by a fraction of small ones, results lie alike between neighbours
that follow at steps of one size, and are one sum as well. Results outside of the first and the last element are those
again. What only one node quantises is quantised before it is moved to its place.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from accel.frontend.legalize.node_writer import NodeWriter, Writing, long_rows_first, with_written
from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.onnx_nodes import attribute_of, constants_of
from accel.frontend.onnx_model.shape_inference import Shape, known_shapes
from accel.util.arrays import Array, Float32

_SCALES = 2  # the place of the scales among the inputs
_MOST_RUNS = 64  # along an axis, each of them a sum of slices


def with_interpolations(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns ``model`` with sums in place of what is enlarged or reduced linearly; itself if nothing is."""
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
class _Run:
    """Results between the same two elements, from ``first`` on, and as many between each two that are further on.

    ``nearness`` is what each of them has of the second element; the same of the others of ``count``, whose first
    elements are ``step`` apart.
    """

    first: int
    step: int
    count: int
    nearness: Float32


@dataclass(frozen=True)
class _Axis:
    """How an axis becomes one of ``extent`` elements: in parts, whose runs take turns."""

    axis: int
    extent: int
    parts: tuple[tuple[_Run, ...], ...]


@dataclass(frozen=True)
class _Interpolation:
    """The axes that a Resize of a tensor of ``shape`` changes."""

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
    coordinates = attribute_of(node, "coordinate_transformation_mode", b"half_pixel")
    axes = list[_Axis]()
    for axis, (size, extent) in enumerate(zip(given, made, strict=True)):
        if not size or np.float32(ratios.get(axis, extent / size)) != np.float32(extent / size):
            return None
        if extent != size:
            parts = _parts(size, extent, coordinates)
            if parts is None:
                return None
            axes.append(_Axis(axis, extent, parts))
    return _Interpolation(given, tuple(axes)) if axes else None


def _parts(size: int, extent: int, coordinates: bytes) -> tuple[tuple[_Run, ...], ...] | None:
    """The runs of all results along an axis; None where there are too many, or at places of another kind.

    Results lie alike again once they are a whole number of elements further.
    """
    results = np.arange(extent, dtype=np.int64)
    at, whole, cycle = results * size, extent, (size, extent)  # results are at at / whole
    if coordinates == b"half_pixel" or (coordinates == b"pytorch_half_pixel" and extent > 1):
        at, whole = (2 * results + 1) * size - extent, 2 * extent
    elif coordinates == b"align_corners":
        whole = max(extent - 1, 1)
        at, cycle = results * (size - 1), (size - 1, whole)
    elif coordinates not in (b"asymmetric", b"pytorch_half_pixel"):
        return None
    last = (size - 1) * whole
    first, rest = np.divmod(np.clip(at, 0, last), whole)
    near = (rest / whole).astype(np.float32)
    within = np.flatnonzero((at >= 0) & (at <= last))
    step, period = (extents // math.gcd(*cycle) for extents in cycle)
    count = len(within) // period if size > 1 else 0
    if count < 2:  # nothing is alike
        count = period = 0
    begin = int(within[0]) if count else 0
    cycle_end, end = begin + period, begin + period * count
    ahead, behind = _runs(first[:begin], near[:begin], 1, 1), _runs(first[end:], near[end:], 1, 1)
    alike = _runs(first[begin:cycle_end], near[begin:cycle_end], step, count)
    parts = *((run,) for run in ahead), alike, *((run,) for run in behind)
    return None if sum(map(len, parts)) > _MOST_RUNS else tuple(filter(None, parts))


def _runs(first: Array, nearness: Float32, step: int, count: int) -> tuple[_Run, ...]:
    """Runs of results one behind another: those behind the same element are one."""
    begins = [0, *(np.flatnonzero(np.diff(first)) + 1).tolist(), len(first)] if len(first) else []
    return tuple(_Run(int(first[begin]), step, count, nearness[begin:end]) for begin, end in itertools.pairwise(begins))


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
        shape, order = self._found.shape, long_rows_first(self._found.shape)
        last = order != sorted(order)
        data, extents = writer.node.input[0], [shape[axis] for axis in order]
        data = writer.emit("Transpose", data, perm=order) if last else data
        for number, axis in enumerate(self._found.axes):
            place, ends = order.index(axis.axis), number == len(self._found.axes) - 1
            quantise = self._quantised if ends else _as_it_is
            parts = _written(writer, data, extents, place, axis, quantise)
            name = "" if last or not ends else self._name(writer)
            data = parts[0] if len(parts) == 1 and not name else writer.emit("Concat", *parts, name=name, axis=place)
            extents[place] = axis.extent
        if last:
            writer.emit("Transpose", data, name=self._name(writer), perm=np.argsort(order).tolist())

    def _name(self, writer: NodeWriter) -> str:
        return str((self._quantise or writer.node).output[0])

    def _quantised(self, writer: NodeWriter, data: str) -> str:
        node = self._quantise
        return data if node is None else writer.emit("QuantizeLinear", data, *node.input[1:])


def _as_it_is(_writer: NodeWriter, data: str) -> str:
    return data


def _written(
    writer: NodeWriter,
    data: str,
    extents: Sequence[int],
    place: int,
    axis: _Axis,
    quantise: Callable[[NodeWriter, str], str],
) -> list[str]:
    """Emit the results along an axis of data of these extents, in parts.

    ``quantise`` emits what becomes of floats before they are moved.
    """

    def elements(run: _Run, begin: int) -> str:
        return writer.sliced(data, place, begin, begin + run.step * (run.count - 1) + 1, run.step)

    def wide(*counts: int) -> list[int]:
        return [*extents[:place], *counts, *extents[place + 1 :]]

    def results(run: _Run) -> str:
        """Those of a run, of which each is a row of the axis behind."""
        one = writer.reshaped(elements(run, run.first), wide(run.count, 1))
        if not run.nearness.any():
            one, shape = quantise(writer, one), wide(run.count, len(run.nearness))
            return one if len(run.nearness) == 1 else writer.emit("Expand", one, writer.constant(np.array(shape)))
        other = writer.reshaped(elements(run, run.first + 1), wide(run.count, 1))
        nearness = run.nearness.reshape([-1 if at == place + 1 else 1 for at in range(len(extents) + 1)])
        further = writer.emit("Mul", writer.emit("Sub", other, one), writer.constant(nearness))
        return quantise(writer, writer.emit("Add", further, one))

    made = []
    for part in axis.parts:
        rows = [results(run) for run in part]
        joined = rows[0] if len(rows) == 1 else writer.emit("Concat", *rows, axis=place + 1)
        made.append(writer.reshaped(joined, wide(part[0].count * sum(len(run.nearness) for run in part))))
    return made
