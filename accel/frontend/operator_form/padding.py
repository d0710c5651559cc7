"""How much of the weights meets data, and not padding, at each position of a convolution."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from accel.errors import InvalidModel, UnsupportedOperator, UnsupportedShape
from accel.frontend.model.limits import LIMITS
from accel.frontend.model.padding import make_padding_explicit
from accel.frontend.operator_form.writer import Writer


def sums_in_bounds(writer: Writer, node: onnx.NodeProto, weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each output of the convolution ``node``, the sum of the weights that meet data and not padding.

    ``weights`` is [O, I, ...]; the result [1, O, ...], with the result's extents, or ones if there is no padding.

    Raises:
        UnsupportedOperator: the shape of the data is unknown.
        UnsupportedShape: the result is beyond the limits.
        InvalidModel: the attributes do not fit the kernel.
    """
    walks = _walks(writer, node, weights.shape[2:])
    sums: npt.NDArray[np.int64] = weights.sum(1)
    if not any(walk.before or walk.after for walk in walks):
        return np.array(sums.sum(tuple(range(1, sums.ndim)), keepdims=True)[None])
    if len(sums) * math.prod(walk.count for walk in walks) > LIMITS.tensor_elements:
        raise UnsupportedShape(f"the result of {node.op_type} is too large", field=f"node:{node.name}")
    for axis, walk in enumerate(walks, 1):
        sums = np.moveaxis(np.tensordot(walk.meets(), sums, (1, axis)), 0, axis)
    return sums[None]


@dataclass(frozen=True)
class _Walk:
    """How a window goes along one axis of ``size`` elements, padded before and after."""

    stride: int
    dilation: int
    before: int
    after: int
    size: int
    taps: int

    @property
    def count(self) -> int:
        """Positions of the window."""
        return max((self.size + self.before + self.after - self.dilation * (self.taps - 1) - 1) // self.stride + 1, 0)

    def meets(self) -> npt.NDArray[np.int64]:
        """1 where a tap of a position is within the data: [positions, taps]."""
        at = np.arange(self.count)[:, None] * self.stride - self.before + np.arange(self.taps) * self.dilation
        return ((at >= 0) & (at < self.size)).astype(np.int64)


def _walks(writer: Writer, node: onnx.NodeProto, kernel: tuple[int, ...]) -> list[_Walk]:
    """Along each axis of an image."""
    shape, rank = writer.shape_of(node.input[0]), len(kernel)
    if shape is None or len(shape) != rank + 2:
        raise UnsupportedOperator(f"{node.op_type}: the shape of its data is unknown", field=f"node:{node.name}")
    counts = [writer.attribute(node, name, [1] * rank) for name in ("strides", "dilations")]
    taps = writer.attribute(node, "kernel_shape", list(kernel))
    pads = _pads(node, shape, kernel) if taps == list(kernel) and _are(counts, rank, least=1) else []
    if not _are([pads], 2 * rank, least=0):
        raise InvalidModel(f"{node.op_type}: its attributes do not fit its kernel", field=f"node:{node.name}")
    return [_Walk(*walk) for walk in zip(*counts, pads[:rank], pads[rank:], shape[2:], kernel, strict=True)]


def _are(lists: list[list[int]], length: int, least: int) -> bool:
    return all(len(values) == length and min(values, default=least) >= least for values in lists)


def _pads(node: onnx.NodeProto, shape: tuple[int, ...], kernel: tuple[int, ...]) -> list[int]:
    """The padding before and after, also where it is automatic."""
    conv = helper.make_node("Conv", ["x", "w"], ["y"])
    conv.attribute.extend(node.attribute)
    sizes = {"x": shape, "w": (1, 1, *kernel), "y": None}
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in sizes.items()]
    model = helper.make_model(helper.make_graph([conv], "conv", infos[:2], infos[2:]))
    make_padding_explicit(model)
    found = next((a for a in model.graph.node[0].attribute if a.name == "pads"), None)
    return [0] * 2 * len(kernel) if found is None else list(found.ints)
