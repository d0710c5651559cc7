"""Converters of operators on images: pooling that is rounded up, and resizing to the nearest element or between two."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend.onnx.onnx_frontend import Resize, onnx_input

from accel.frontend.relax_import.elementwise_converters import constant_of
from accel.util.arrays import Float32

_DIMENSIONS = (1, 2, 3)


def max_pool(builder: relax.BlockBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts MaxPool whose last window may reach beyond the padding (``ceil_mode``).

    Raises:
        ValueError: the places of the maxima are used.
    """
    if attributes["tvm_custom"]["num_outputs"] > 1:
        raise ValueError(
            "the places of the maxima, its second output, are not supported; export it without them, in torch with "
            "return_indices=False"
        )
    return _pool(builder, "max_pool", inputs[0], attributes)


def average_pool(
    builder: relax.BlockBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> relax.Expr | None:
    """Converts AveragePool whose last window may reach beyond the padding; what is beyond it never counts."""
    return _pool(builder, "avg_pool", inputs[0], attributes)


def _pool(builder: relax.BlockBuilder, kind: str, data: Any, attributes: Mapping[str, Any]) -> relax.Expr | None:
    """A pooling rounded up, as one rounded down with more padding at the end; others are left to TVM."""
    shape = [int(extent) for extent in data.ty.shape]
    kernel = [int(extent) for extent in attributes["kernel_shape"]]
    if not attributes.get("ceil_mode", 0) or len(kernel) not in _DIMENSIONS:
        return None
    axes = range(len(kernel))
    strides, dilations = (list(attributes.get(name, [1] * len(kernel))) for name in ("strides", "dilations"))
    pads = list(attributes.get("pads", [0] * (2 * len(kernel))))
    before, after = pads[: len(kernel)], pads[len(kernel) :]
    extra = [
        _beyond(shape[2 + i], before[i] + after[i], before[i], dilations[i] * (kernel[i] - 1) + 1, strides[i])
        for i in axes
    ]
    if attributes.get("count_include_pad", 0):
        # the padding counts, as data would; what is added at the end does not
        widths = [0, 0, 0, 0, *(width for pair in zip(before, after, strict=True) for width in pair)]
        data = builder.normalize(relax.op.nn.pad(data, widths, "constant", 0.0))
        before, after = [0] * len(kernel), [0] * len(kernel)
    ends = [after[i] + extra[i] for i in axes]
    pool = getattr(relax.op.nn, f"{kind}{len(kernel)}d")
    return pool(data, kernel, strides, [*before, *ends], dilations, False, False)


def _beyond(size: int, padding: int, before: int, window: int, stride: int) -> int:
    """How far the last window reaches beyond the padding; no window starts in the padding at the end."""
    last = -(-(size + padding - window) // stride) * stride
    if last >= size + before:
        last -= stride
    return max(last + window - size - padding, 0)


_IMAGES = (4, 5)  # ranks that TVM resizes

_ROUNDINGS: Mapping[str, Callable[[Float32], Float32]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda at: np.ceil(at - np.float32(0.5)),
    "round_prefer_ceil": lambda at: np.floor(at + np.float32(0.5)),
}


def resize(builder: relax.BlockBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> relax.Expr | None:
    """Converts Resize by constant scales or to constant sizes.

    Raises:
        ValueError: the node wants what neither we nor TVM can do.
    """
    data = inputs[0]
    shape = [int(extent) for extent in data.ty.shape]
    resizing = _ResizeAttributes(attributes)
    roi, scales, sizes = (constant_of(value) for value in [*inputs[1:], None, None, None][:3])
    if (scales is None or not scales.size) and sizes is None:
        return None
    axes = [axis % len(shape) for axis in attributes.get("axes", range(len(shape)))]
    ratios, extents = np.ones(len(shape), np.float32), list(shape)
    for index, axis in enumerate(axes):
        if sizes is not None and sizes.size:
            extents[axis] = int(sizes[index])
            ratios[axis] = np.float32(extents[axis]) / np.float32(shape[axis])
        elif scales is not None:
            ratios[axis] = scales[index]
            extents[axis] = int(np.floor(np.float32(shape[axis]) * ratios[axis]))
    exact = all(ratio * size == extent for ratio, size, extent in zip(ratios, shape, extents, strict=True))
    if len(shape) in _IMAGES and extents[:2] == shape[:2] and (exact or resizing.method == "cubic"):
        spatial = relax.const(np.array(extents, np.int64))
        given = None if roi is None or len(axes) < len(shape) else inputs[1]
        return Resize.get_converter(18)(builder, onnx_input([data, given, None, spatial]), attributes, [{}, {}])
    if resizing.method == "cubic" or resizing.coordinates == "tf_crop_and_resize":
        return None
    for axis, (size, extent, ratio) in enumerate(zip(shape, extents, ratios, strict=True)):
        if extent != size or ratio != 1:
            data = resizing.along(builder, data, axis, size, extent, ratio)
    return data


class _ResizeAttributes:
    """What the node's attributes say."""

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        def text(name: str, default: str) -> str:
            return bytes(attributes.get(name, default.encode())).decode()

        self.method = text("mode", "nearest")
        self.coordinates = text("coordinate_transformation_mode", "half_pixel")
        self.rounding = text("nearest_mode", "round_prefer_floor")
        if attributes.get("antialias", 0) or text("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise ValueError("antialias and keep_aspect_ratio_policy are not supported")

    def along(
        self, builder: relax.BlockBuilder, data: relax.Expr, axis: int, size: int, extent: int, ratio: np.float32
    ) -> relax.Expr:
        """Returns ``data`` of ``size`` elements along ``axis``, resized to ``extent``."""
        at = self._coordinates(size, extent, ratio)
        if self.method == "nearest":
            return _take(builder, data, _ROUNDINGS[self.rounding](at), axis)
        at = np.clip(at, 0, size - 1)
        below = np.floor(at)
        weight = (at - below).reshape([-1] + [1] * (len(data.ty.shape) - axis - 1))
        parts = [
            builder.normalize(relax.op.multiply(_take(builder, data, ends, axis), relax.const(factor, "float32")))
            for ends, factor in ((below, 1 - weight), (below + 1, weight))
        ]
        return builder.normalize(relax.op.add(*parts))

    def _coordinates(self, size: int, extent: int, ratio: np.float32) -> Float32:
        """For each element of the result, where it lies along the axis of ``size`` elements."""
        at, half = np.arange(extent, dtype=np.float32), np.float32(0.5)
        if self.coordinates == "asymmetric":
            return np.asarray(at / ratio, np.float32)
        if self.coordinates == "align_corners":
            return np.asarray(at * np.float32(size - 1) / np.float32(max(extent - 1, 1)), np.float32)
        if self.coordinates == "pytorch_half_pixel" and extent == 1:
            return np.zeros(1, np.float32)
        if self.coordinates in ("half_pixel", "pytorch_half_pixel"):
            return np.asarray((at + half) / ratio - half, np.float32)
        if self.coordinates == "half_pixel_symmetric":
            lost = np.float32(1) - np.float32(extent) / (ratio * np.float32(size))
            return np.asarray(np.float32(size) * half * lost + (at + half) / ratio - half, np.float32)
        raise ValueError(f"the coordinates {self.coordinates!r} are not supported")


def _take(builder: relax.BlockBuilder, data: relax.Expr, at: Float32, axis: int) -> relax.Expr:
    """The elements of ``data`` along ``axis`` at whole coordinates, the nearest where there are none."""
    last = int(data.ty.shape[axis]) - 1
    return builder.normalize(relax.op.take(data, relax.const(np.clip(at, 0, last).astype(np.int64)), axis, "clip"))
