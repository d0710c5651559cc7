"""Maxima over windows as regions: padded by the loads or by the host, and clipped by the store."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import te, tirx

from accel.accelerator.contraction import Contraction
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion
from accel.lowering.analysis.lanewise_capabilities import (
    clipping_epilogue,
    identity_obstacle,
    lane_capabilities,
    load_obstacle,
)
from accel.lowering.analysis.store_mismatch import store_mismatch
from accel.lowering.analysis.window_stores import has_windows, store_of_windows, window_mismatch
from accel.lowering.ir.epilogue_arithmetic import stored_value
from accel.lowering.kinds.contraction.epilogue_stages import ACCUMULATE, inner, padded_data, placeholder
from accel.lowering.kinds.lanewise.lanewise_expression import operand_name
from accel.lowering.kinds.lanewise.lanewise_kind import LanewiseKind
from accel.lowering.kinds.lanewise.lanewise_tiling import lanewise_cycles, lanewise_tiling
from accel.lowering.kinds.layers.layer_options import whole_tiling
from accel.lowering.kinds.layers.layer_schedule import schedule_layer_sums
from accel.lowering.kinds.layers.layer_tilings import Scheduled, TileAxes, layer_operations, layer_tilings
from accel.lowering.kinds.region_kind import (
    PackedOperands,
    PackedRegion,
    PackRequest,
    PlanRequest,
    Refusal,
    UsedOperation,
)
from accel.lowering.kinds.used_operations import step_operations, stores_of_windows
from accel.region.epilogue import INT8, Epilogue, Scaling, Shifting
from accel.region.kinds import Region, TilingOption
from accel.region.pooling import Pooling
from accel.region.shapes import Convolution, PackedActivation
from accel.region.tile_steps import LOADED, LaneCapabilities
from accel.region.tilings import divisors


class PoolingKind(LanewiseKind[Pooling]):
    """The largest values of the windows of an image."""

    shape = Pooling
    operators = frozenset({"max_pool"})

    def plan(self, request: PlanRequest) -> list[TilingOption[Pooling]] | Refusal:
        """The way to run a composite, or why there is none."""
        bordered, capabilities = request.use.wants_border(request.capabilities), request.capabilities
        layers = _layers(request.composite, capabilities, request.lowest, bordered=bordered)
        if not isinstance(layers, str) or not capabilities.small:
            return Refusal(layers) if isinstance(layers, str) else layers
        stored = _by_a_store(request.composite, request.capabilities, bordered=bordered)
        if isinstance(stored, Region):
            return [TilingOption(0.0, stored)]
        region = _region(request.composite, request.capabilities, request.lowest, bordered=bordered)
        if isinstance(region, str):
            return Refusal(stored or region)
        return [TilingOption(0.0, region)]

    def pack(self, request: PackRequest[Pooling], operands: PackedOperands) -> PackedRegion[Pooling]:
        """The region over its operands as they lie; what brings them into the accumulators a layer does not need."""
        packed = super().pack(request, operands)
        return replace(packed, arguments=packed.arguments[:1]) if request.region.tiling.layer else packed

    def expression(self, region: Region[Pooling], gemm: Contraction) -> tirx.PrimFunc:
        """What a region computes, as tensor expressions; its parameters are the arguments, then the result."""
        return _by_a_layer(region, gemm) if region.tiling.layer else super().expression(region, gemm)

    def schedule(self, function: tirx.PrimFunc, region: Region[Pooling], capabilities: Capabilities) -> tirx.PrimFunc:
        """The function as the nests of its steps, with their pragmas, or as that of a layer."""
        if region.tiling.layer:
            return schedule_layer_sums(function, region, capabilities, lanes=0)
        return super().schedule(function, region, capabilities)

    def instructions(self, region: Region[Pooling], capabilities: Capabilities) -> Iterator[UsedOperation]:
        """What a tile uses, in its order."""
        if region.tiling.layer:
            return layer_operations(region, _scheduled(capabilities), capabilities)
        if region.shape.by_store:
            return _operations_of_store(region, capabilities)
        return super().instructions(region, capabilities)

    def combine(self, operands: list[te.Tensor], shape: Pooling, extents: tuple[int, ...]) -> te.Tensor:
        """The maximum over the window."""
        (data,), window = operands, shape.window
        ky, kx = (te.reduce_axis((0, extent), name) for extent, name in zip(window.kernel, ("kh", "kw"), strict=True))
        (sh, sw), (dh, dw) = window.strides, window.dilation

        def element(n: Any, c: Any, y: Any, x: Any, *inner: Any) -> Any:
            return te.max(data[n, c, y * sh + ky * dh, x * sw + kx * dw, *inner], axis=[ky, kx])

        return te.compute(extents, element, name="largest")


def pooling_cycles(request: PlanRequest) -> float:
    """The estimated cycles of a composite as a launch by itself; infinite if the host has it."""
    options = PoolingKind().plan(request)
    if isinstance(options, Refusal):
        return math.inf
    region, bordered = options[0].region, request.use.wants_border(request.capabilities)
    if region.tiling.layer:
        return options[0].cycles
    return lanewise_cycles(region.shape, request.capabilities, region.epilogue, bordered=bordered)


def _scheduled(capabilities: Capabilities) -> Scheduled:
    """What makes the function of a region that a layer does, scheduled as its tiling says."""
    kind = PoolingKind()
    return lambda region: kind.schedule(kind.expression(region, capabilities.gemm), region, capabilities)


def _layers(
    composite: CompositeRegion, capabilities: Capabilities, lowest: int, *, bordered: bool
) -> list[TilingOption[Pooling]] | str:
    """The cheapest options by instructions as large as a layer; or why there is none."""
    gemm, title = capabilities.gemm, capabilities.accelerator.title
    if not capabilities.accelerator.layers:
        return f"{title} has no instructions as large as a layer"
    if not gemm.results_are_data:
        return f"its tensors do not lie in DRAM as the results of {gemm.instruction.name} do"
    clips, why = dict(composite.steps), ""
    low, high = clips.get("max", INT8[0]), clips.get("min", INT8[1])
    endings = [Epilogue((), scaling=Shifting(0, low, high, rounds=False))]
    endings += [Epilogue(())] if (low, high) == INT8 else []
    for shape in _shapes(composite, capabilities, lowest, LaneCapabilities(pair=False, difference=False, direct=False)):
        window, data = shape.window, shape.data
        rows, columns = (
            (window.strides[at], window.padding[at], size) for at, size in enumerate((data.height, data.width))
        )
        axes = TileAxes(divisors(data.blocks), shape.out_height, shape.out_width, (rows, columns))
        for ending in endings:
            whole = whole_tiling(data.blocks, shape.out_height, shape.out_width)
            region = Region(shape, ending, whole)
            made = layer_tilings(region, axes, _scheduled(capabilities), capabilities, 1, dividing=bordered)
            if not isinstance(made, str):
                return [TilingOption(each.cycles, replace(region, tiling=each.tiling)) for each in made]
            why = why or made
    return why


def _by_a_layer(region: Region[Pooling], gemm: Contraction) -> tirx.PrimFunc:
    """``out = store(largest of the window)``; its parameters are the data and the result."""
    shape, tiling, epilogue = region.shape, region.tiling, region.epilogue
    window, blocks = shape.window, shape.data.blocks
    data = placeholder(operand_name(0), shape.data, gemm.data)
    like = Convolution(
        shape.data, blocks, window.kernel, window.strides, window.dilation, window.padding, shape.out_height,
        shape.out_width, groups=blocks,
    )  # fmt: skip
    rows, columns = tiling.out_pitch_h, tiling.out_pitch_w
    padded = padded_data(data, like, rows, columns)
    ky, kx = (te.reduce_axis((0, extent), name) for extent, name in zip(window.kernel, ("kh", "kw"), strict=True))
    (sh, sw), (dh, dw) = window.strides, window.dilation

    def largest(n: Any, c: Any, y: Any, x: Any, first: Any, second: Any) -> Any:
        place = dict(zip(gemm.dst.axes, (first, second), strict=True))
        within = inner(gemm.data, m=place["m"], k=place["n"])
        return te.max(padded[n, c, y * sh + ky * dh, x * sw + kx * dw, *within].astype(gemm.sum_dtype), axis=[ky, kx])

    extents = (shape.data.batch, blocks, rows, columns, *gemm.dst.shape)
    sums = te.compute(extents, largest, name=ACCUMULATE)

    def stored(*at: Any) -> Any:
        return stored_value(sums(*at), epilogue.result, epilogue.scaling)

    return te.create_prim_func([data, te.compute(extents, stored, name="result0")])


def _by_a_store(composite: CompositeRegion, capabilities: Capabilities, *, bordered: bool) -> Region[Pooling] | str:
    """The region of a composite of which a store takes the largest of windows; or why there is none.

    Empty where the accelerator has no such store.
    """
    bounds, memory = dict(composite.steps), capabilities.gemm.dst.memory.name
    low, high = bounds.get("max", INT8[0]), bounds.get("min", INT8[1])
    endings = [Epilogue((), scaling=way) for way in (Shifting(0, low, high, rounds=False), Scaling(1.0, low, high))]
    found = ((ending, store_of_windows(ending, capabilities)) for ending in endings)
    epilogue, store = next(((ending, store) for ending, store in found if store is not None), (None, None))
    window = composite.window
    if window is None or not has_windows(capabilities.accelerator) or capabilities.load(memory, "int8") is None:
        return ""
    if not capabilities.gemm.results_are_data and not bool(identity_obstacle(capabilities)):
        return ""
    if epilogue is None or store is None:
        return store_mismatch((low, high), capabilities)
    why = window_mismatch(window, store, capabilities.accelerator)
    if why:
        return why
    shape = replace(next(iter(_shapes(composite, capabilities, INT8[0], LOADED))), by_store=True)
    tiling = lanewise_tiling(shape, capabilities, epilogue, bordered=bordered)
    return f"no tile of it fits {store.name}" if tiling is None else Region(shape, epilogue, tiling)


def _operations_of_store(region: Region[Pooling], capabilities: Capabilities) -> Iterator[UsedOperation]:
    """The load of the data, and the store."""
    yield from step_operations(region.shape, region.tiling, capabilities)
    yield from stores_of_windows(region.epilogue, capabilities)


def _region(
    composite: CompositeRegion, capabilities: Capabilities, lowest: int, *, bordered: bool
) -> Region[Pooling] | str:
    """The region of a composite ``max_pool`` whose data are at least ``lowest``, or why there is none."""
    title, ways = capabilities.accelerator.title, lane_capabilities(capabilities, "max")
    if not ways.pair and not ways.difference:
        why = capabilities.pair("max").why
        return f"{title} has no maximum of two accumulators{f': {why}' if why else ''}"
    bounds = dict(composite.steps)
    epilogue = clipping_epilogue((bounds.get("max", INT8[0]), bounds.get("min", INT8[1])), capabilities)
    obstacle = load_obstacle(capabilities) or (epilogue if isinstance(epilogue, str) else "")
    if obstacle or isinstance(epilogue, str):
        return obstacle
    for candidate in _shapes(composite, capabilities, lowest, ways):
        tiling = lanewise_tiling(candidate, capabilities, epilogue, bordered=bordered)
        if tiling is not None:
            return Region(candidate, epilogue, tiling)
    return f"no tile of it fits the scratchpads of {title}"


def _shapes(
    composite: CompositeRegion, capabilities: Capabilities, lowest: int, ways: LaneCapabilities
) -> Iterator[Pooling]:
    """Padded by the loads, if zeros do not matter, and padded by the host."""
    (n, c, h, w), window = composite.shapes[0], composite.window
    assert window is not None
    gemm = capabilities.gemm
    data = PackedActivation(math.ceil(n / gemm.rows), math.ceil(c / gemm.out_channels), h, w, h, w)
    pooling = Pooling(data, window, composite.result[2], composite.result[3], ways.direct)
    if not any(window.padding) or (lowest >= 0 and _all_real(pooling)):
        yield pooling
    yield _padded_on_host(pooling)


def _all_real(pooling: Pooling) -> bool:
    """Whether every window has an element that is no padding."""
    window = pooling.window
    for axis, (out, size) in enumerate(
        ((pooling.out_height, pooling.data.height), (pooling.out_width, pooling.data.width))
    ):
        starts = np.arange(out) * window.strides[axis] - window.padding[axis]
        places = starts[:, None] + np.arange(window.kernel[axis]) * window.dilation[axis]
        if not ((places >= 0) & (places < size)).any(axis=1).all():
            return False
    return True


def _padded_on_host(pooling: Pooling) -> Pooling:
    """The same over data that the host has padded with the least int8, as far as the windows reach."""
    window, data = pooling.window, pooling.data
    top, left, _, _ = window.padding
    height, width = pooling.reach(pooling.out_height, pooling.out_width)
    bottom, right = max(height - top - data.height, 0), max(width - left - data.width, 0)
    high, wide = data.height + top + bottom, data.width + left + right
    return replace(
        pooling,
        data=PackedActivation(data.batch, data.blocks, high, wide, high, wide),
        window=replace(window, padding=(0, 0, 0, 0)),
        host_padding=(top, left, bottom, right),
    )
