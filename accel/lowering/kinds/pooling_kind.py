"""Maxima over windows as regions: padded by the loads or by the host, and clipped by the store."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import te

from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion
from accel.lowering.analysis.lanewise_capabilities import clipping_epilogue, lane_capabilities, load_obstacle
from accel.lowering.kinds.lanewise.lanewise_kind import LanewiseKind
from accel.lowering.kinds.lanewise.lanewise_tiling import lanewise_tiling
from accel.lowering.kinds.region_kind import PlanRequest, Refusal
from accel.region.epilogue import INT8
from accel.region.kinds import Region, TilingOption
from accel.region.pooling import Pooling
from accel.region.shapes import PackedActivation
from accel.region.tile_steps import LaneCapabilities


class PoolingKind(LanewiseKind[Pooling]):
    """The largest values of the windows of an image."""

    shape = Pooling
    operators = frozenset({"max_pool"})
    by_layers = False

    def plan(self, request: PlanRequest) -> list[TilingOption[Pooling]] | Refusal:
        """The way to run a composite, or why there is none."""
        bordered = request.use.wants_border(request.capabilities)
        region = _region(request.composite, request.capabilities, request.lowest, bordered=bordered)
        return Refusal(region) if isinstance(region, str) else [TilingOption(0.0, region)]

    def combine(self, operands: list[te.Tensor], shape: Pooling, extents: tuple[int, ...]) -> te.Tensor:
        """The maximum over the window."""
        (data,), window = operands, shape.window
        ky, kx = (te.reduce_axis((0, extent), name) for extent, name in zip(window.kernel, ("kh", "kw"), strict=True))
        (sh, sw), (dh, dw) = window.strides, window.dilation

        def element(n: Any, c: Any, y: Any, x: Any, *inner: Any) -> Any:
            return te.max(data[n, c, y * sh + ky * dh, x * sw + kx * dw, *inner], axis=[ky, kx])

        return te.compute(extents, element, name="largest")


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
