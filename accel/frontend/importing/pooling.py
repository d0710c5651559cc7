"""Pooling that is rounded up, of which TVM has another idea than ONNX."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

_DIMENSIONS = (1, 2, 3)


def max_pool(builder: relax.BlockBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> relax.Expr | None:
    """MaxPool whose last window may reach beyond the padding (``ceil_mode``)."""
    return _pool(builder, "max_pool", inputs[0], attributes)


def average_pool(
    builder: relax.BlockBuilder, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> relax.Expr | None:
    """AveragePool whose last window may reach beyond the padding; what is beyond it never counts."""
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
