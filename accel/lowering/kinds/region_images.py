"""Activations where they lie in DRAM: windows of larger images, and results within a border that nobody writes.

A kind of region indexes an activation from its first row and column on. What lies around that is added here to every
index, before and after the schedule alike, so that no kind knows of it: loads and stores get another first address and
another step from row to row.
"""

from collections.abc import Mapping
from typing import Any

from tvm import ir, tirx
from tvm.ir import TensorLoad, TensorRegion
from tvm_ffi import structural_mutate

from accel.accelerator.contraction import Contraction
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.kinds.operand_views import in_views
from accel.lowering.kinds.registry import kind_of, launch_kind
from accel.region.kinds import AnyRegion, Region, VectorRegion
from accel.region.shapes import PackedActivation

_ROW, _COLUMN = 2, 3  # axes of a packed activation


def region_function(region: AnyRegion, gemm: Contraction) -> tirx.PrimFunc:
    """What a region computes, as tensor expressions over its activations as they lie."""
    if isinstance(region, VectorRegion):
        return in_views(launch_kind(region).expression(region, gemm), region.views)
    return in_views(_in_images(kind_of(region).expression(region, gemm), region), region.views)


def scheduled_function(function: tirx.PrimFunc, region: AnyRegion, capabilities: Capabilities) -> tirx.PrimFunc:
    """The function of a region, as :func:`region_function` made it, scheduled as its kind does."""
    if not region.views and (isinstance(region, VectorRegion) or not _moved(function, region)):
        return launch_kind(region).schedule(function, region, capabilities)
    plain = launch_kind(region).expression(region, capabilities.gemm)
    plain = tirx.PrimFunc(plain.params, plain.body, plain.ret_type, function.attrs)
    scheduled = launch_kind(region).schedule(plain, region, capabilities)
    in_images = scheduled if isinstance(region, VectorRegion) else _in_images(scheduled, region)
    return in_views(in_images, region.views)


def _moved(function: tirx.PrimFunc, region: Region) -> dict[Any, PackedActivation]:
    """The parameters that do not lie in DRAM from their first row and column on, with the images that they are in."""
    results = [str(parameter.name) for parameter in function.params[len(function.params) - region.epilogue.planes :]]
    layouts: Mapping[str, PackedActivation] = {
        **kind_of(region).activations(region),
        **dict.fromkeys(results, region.result),
    }
    found = {parameter: layouts.get(str(parameter.name)) for parameter in function.params}
    return {each: layout for each, layout in found.items() if layout is not None and _lies_within(each, layout)}


def _lies_within(parameter: Any, layout: PackedActivation) -> bool:
    pitches = tuple(int(extent) for extent in parameter.shape[_ROW : _COLUMN + 1])
    return (layout.top, layout.left) != (0, 0) or pitches != (layout.pitch_h, layout.pitch_w)


def _in_images(function: tirx.PrimFunc, region: Region) -> tirx.PrimFunc:
    """The function with every index into an activation where that lies in its image."""
    moved = _moved(function, region)
    if not moved:
        return function
    images = {parameter: (_image(parameter, layout), layout) for parameter, layout in moved.items()}

    def indices(given: Any, layout: PackedActivation) -> list[tirx.Expr]:
        at = list(given)
        at[_ROW], at[_COLUMN] = at[_ROW] + layout.top, at[_COLUMN] + layout.left
        return at

    def load(value: TensorLoad, mutator: Any) -> Any:
        if value.source not in images:
            return mutator.default_mutate(value)
        image, layout = images[value.source]
        return image[tuple(indices(value.indices, layout))]

    def store(statement: tirx.BufferStore, mutator: Any) -> Any:
        if statement.buffer not in images:
            return mutator.default_mutate(statement)
        image, layout = images[statement.buffer]
        return tirx.BufferStore(image, mutator.mutate(statement.value), indices(statement.indices, layout))

    def part(given: TensorRegion, _mutator: Any) -> TensorRegion:
        if given.source not in images:
            return given
        image, layout = images[given.source]
        ranges = list(given.region)
        for axis, first in ((_ROW, layout.top), (_COLUMN, layout.left)):
            ranges[axis] = ir.Range.from_min_extent(ranges[axis].min + first, ranges[axis].extent)
        return tirx.BufferRegion(image, ranges)

    rules = [(TensorLoad, load), (tirx.BufferStore, store), (TensorRegion, part)]
    parameters = [images[each][0] if each in images else each for each in function.params]
    return tirx.PrimFunc(parameters, structural_mutate(function.body, rules), function.ret_type, function.attrs)


def _image(parameter: Any, layout: PackedActivation) -> Any:
    """The whole tensor that an activation is a part of."""
    images, blocks, _, _, *tile = parameter.shape
    shape = (images, blocks, layout.pitch_h, layout.pitch_w, *tile)
    return tirx.decl_buffer(shape, str(parameter.dtype), str(parameter.name))
