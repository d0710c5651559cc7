"""Models of one operator each, for what the host runs."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from examples.graph import Graph

FLOAT, DOUBLE, INT8, INT32, INT64, UINT8, BOOL = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.INT8,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.BOOL,
)


@dataclass(frozen=True)
class Case:
    """One operator; an input is an array (a constant), or a shape with an element type."""

    op: str
    inputs: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: int = FLOAT
    opset: int = 17
    more: tuple[tuple[tuple[int, ...], int], ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)

    def model(self) -> onnx.ModelProto:
        graph = Graph(self.op)
        names = []
        for index, value in enumerate(self.inputs):
            if value is None:
                names.append("")
            elif isinstance(value, np.ndarray):
                names.append(graph.constant(f"c{index}", value))
            else:
                names.append(graph.input(f"x{index}", value[0], value[1]))
        graph.output(graph.node(self.op, "node", names, **self.attributes), self.shape, self.dtype)
        for index, (shape, dtype) in enumerate(self.more):
            graph._nodes[-1].output.append(f"more{index}")
            graph.output(f"more{index}", shape, dtype)
        return graph.model(self.opset)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def scalar(value: float, dtype: Any = np.float32) -> np.ndarray:
    return np.array(value, dtype)


M, IMAGE, V, X = ((4, 6), FLOAT), ((1, 3, 8, 8), FLOAT), ((2, 3, 10), FLOAT), ((1, 4, 8, 8), FLOAT)
WIDTHS = i64(0, 0, 1, 2, 0, 0, 2, 1)
EMPTY = f32()

_UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Elu Erf Exp Floor HardSigmoid HardSwish Hardmax LeakyRelu Log "
    "LogSoftmax Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Tan "
    "Tanh ThresholdedRelu"
)
_BINARY = "Add Div Max Mean Min Mul PRelu Pow Sub Sum"
_COMPARISONS = "Equal Greater GreaterOrEqual Less LessOrEqual"
_REDUCTIONS = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare"

# what Relax has an operator for, and TVM's importer makes code of
CONVERTED = {
    **{f"pad {mode}": Case("Pad", (IMAGE, WIDTHS), (1, 3, 11, 11), opset=19, attributes={"mode": mode})
       for mode in ("constant", "edge", "reflect", "wrap")},
    "pad by a value": Case("Pad", (IMAGE, WIDTHS, scalar(1.5)), (1, 3, 11, 11)),
    "pad int8": Case("Pad", (((4, 6), INT8), i64(1, 0, 0, 2), scalar(-3, np.int8)), (5, 8), INT8),
    "pad uint8": Case("Pad", (((4, 6), UINT8), i64(1, 0, 0, 2), scalar(200, np.uint8)), (5, 8), UINT8),
    "pad int64": Case("Pad", (((4, 6), INT64), i64(1, 0, 0, 2), scalar(-(2**40), np.int64)), (5, 8), INT64),
    "pad that cuts": Case("Pad", (M, i64(-1, 1, 0, -2)), (3, 5)),
    "pad one axis": Case("Pad", (M, i64(1, 2), None, i64(-1)), (4, 9), opset=18),
    "clip": Case("Clip", (M, scalar(0), scalar(1)), (4, 6)),
    "clip below": Case("Clip", (M, scalar(0)), (4, 6)),
    "clip integers": Case("Clip", (((4, 6), INT32), scalar(-5, np.int32), scalar(9, np.int32)), (4, 6), INT32),
    "clip doubles": Case("Clip", (((4, 6), DOUBLE), scalar(0, np.float64), scalar(0.1, np.float64)), (4, 6), DOUBLE),
    "clip by tensors": Case("Clip", (M, ((), FLOAT), ((), FLOAT)), (4, 6)),
    "clip by a tensor": Case("Clip", (M, ((), FLOAT)), (4, 6)),
    "tile": Case("Tile", (M, i64(2, 3)), (8, 18)),
    "einsum": Case("Einsum", (M, ((6, 5), FLOAT)), (4, 5), attributes={"equation": "ij,jk->ik"}),
    "einsum of one": Case("Einsum", (M,), (6, 4), attributes={"equation": "ij->ji"}),
    "einsum of batches": Case(
        "Einsum", (((2, 3, 4), FLOAT), ((2, 4, 5), FLOAT)), (2, 3, 5), attributes={"equation": "bij, bjk -> bik"}
    ),
    "resize lines": Case("Resize", (V, EMPTY, f32(1, 1, 1.7)), (2, 3, 17), attributes={"mode": "nearest"}),
    "resize lines to sizes": Case("Resize", (V, None, None, i64(2, 3, 7)), (2, 3, 7), attributes={"mode": "linear"}),
    "resize lines between corners": Case(
        "Resize", (V, EMPTY, f32(1, 1, 2)), (2, 3, 20),
        attributes={"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    "resize images by fractions": Case("Resize", (IMAGE, EMPTY, f32(1, 1, 1.3, 1.7)), (1, 3, 10, 13)),
    "resize some axes": Case(
        "Resize", (IMAGE, None, f32(2, 4)), (1, 3, 32, 16), opset=18, attributes={"mode": "linear", "axes": [3, 2]}
    ),
}  # fmt: skip

PLAIN = {
    **{op: Case(op, (M,), (4, 6), opset=18) for op in _UNARY.split()},
    **{op: Case(op, (M, M), (4, 6)) for op in _BINARY.split()},
    **{op: Case(op, (M, M), (4, 6), BOOL) for op in _COMPARISONS.split()},
    **{op: Case(op, (((4,), BOOL), ((4,), BOOL)), (4,), BOOL) for op in ("And", "Or", "Xor")},
    **{op: Case(op, (M,), (4, 6), BOOL) for op in ("IsInf", "IsNaN")},
    **{op: Case(op, (M,), (4, 1), attributes={"axes": [1]}) for op in _REDUCTIONS.split()},
    **{op: Case(op, (M,), (4, 1), INT64, attributes={"axis": 1}) for op in ("ArgMax", "ArgMin")},
    "Mod": Case("Mod", (((4,), INT32), np.array([2, 3, -4, 5], np.int32)), (4,), INT32),
    "Div int": Case("Div", (((4,), INT32), ((4,), INT32)), (4,), INT32),
    "BitShift": Case("BitShift", (((2,), UINT8), np.array([1, 2], np.uint8)), (2,), UINT8,
                     attributes={"direction": "LEFT"}),
    "BitwiseAnd": Case("BitwiseAnd", (((4,), INT32), ((4,), INT32)), (4,), INT32, opset=18),
    "Not": Case("Not", (((4,), BOOL),), (4,), BOOL),
    "Where": Case("Where", (((4, 6), BOOL), M, M), (4, 6)),
    "Cast": Case("Cast", (M,), (4, 6), INT8, attributes={"to": INT8}),
    "Cast to half": Case("Cast", (M,), (4, 6), TensorProto.FLOAT16, attributes={"to": TensorProto.FLOAT16}),
    "CastLike": Case("CastLike", (M, scalar(1, np.int32)), (4, 6), INT32),
    "Expand": Case("Expand", (((1, 6), FLOAT), i64(4, 6)), (4, 6)),
    "Concat": Case("Concat", (M, M), (8, 6), attributes={"axis": 0}),
    "Split": Case("Split", (M, i64(1, 3)), (1, 6), more=(((3, 6), FLOAT),), attributes={"axis": 0}),
    "Slice": Case("Slice", (M, i64(1), i64(2**63 - 1), i64(1), i64(2)), (4, 3)),
    "Slice backwards": Case("Slice", (M, i64(-1), i64(-(2**63)), i64(1), i64(-1)), (4, 6)),
    "Transpose": Case("Transpose", (M,), (6, 4)),
    "Reshape": Case("Reshape", (M, i64(2, 12)), (2, 12)),
    "Flatten": Case("Flatten", (IMAGE,), (1, 192)),
    "Squeeze": Case("Squeeze", (((1, 4), FLOAT), i64(0)), (4,)),
    "Unsqueeze": Case("Unsqueeze", (M, i64(0)), (1, 4, 6)),
    "DepthToSpace": Case("DepthToSpace", (((1, 4, 3, 3), FLOAT),), (1, 1, 6, 6), attributes={"blocksize": 2}),
    "ScatterElements": Case("ScatterElements", (M, ((2, 6), INT64), ((2, 6), FLOAT)), (4, 6)),
    "OneHot": Case("OneHot", (((3,), INT64), scalar(5, np.int64), f32(0, 1)), (3, 5)),
    "Trilu": Case("Trilu", (M,), (4, 6)),
    "EyeLike": Case("EyeLike", (M,), (4, 6)),
    "MaxPool": Case("MaxPool", (IMAGE,), (1, 3, 4, 4),
                    attributes={"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
    "AveragePool": Case("AveragePool", (((1, 3, 7, 7), FLOAT),), (1, 3, 4, 4),
                        attributes={"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    "LpPool": Case("LpPool", (IMAGE,), (1, 3, 4, 4), attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
    **{op: Case(op, (IMAGE,), (1, 3, 1, 1)) for op in ("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")},
    "Conv": Case("Conv", (IMAGE, draw(4, 3, 3, 3), draw(4)), (1, 4, 8, 8), attributes={"pads": [1] * 4}),
    "Conv grouped": Case("Conv", (X, draw(4, 1, 3, 3)), (1, 4, 6, 6), attributes={"group": 4}),
    "Conv of lines": Case("Conv", (V, draw(4, 3, 3)), (2, 4, 8)),
    "Conv of volumes": Case("Conv", (((1, 2, 4, 4, 4), FLOAT), draw(3, 2, 2, 2, 2)), (1, 3, 3, 3, 3)),
    "ConvTranspose": Case("ConvTranspose", (IMAGE, draw(3, 4, 2, 2)), (1, 4, 16, 16), attributes={"strides": [2, 2]}),
    "Gemm": Case("Gemm", (M, draw(5, 6), draw(5)), (4, 5), attributes={"transB": 1, "alpha": 0.5, "beta": 2.0}),
    "MatMul": Case("MatMul", (M, ((6, 5), FLOAT)), (4, 5)),
    "MatMulInteger": Case("MatMulInteger", (((4, 6), INT8), ((6, 5), INT8)), (4, 5), INT32),
    "BatchNormalization": Case("BatchNormalization", (IMAGE, draw(3), draw(3), draw(3), np.abs(draw(3))), (1, 3, 8, 8)),
    "InstanceNormalization": Case("InstanceNormalization", (IMAGE, draw(3), draw(3)), (1, 3, 8, 8)),
    "LayerNormalization": Case("LayerNormalization", (M, draw(6), draw(6)), (4, 6)),
    "GroupNormalization": Case(
        "GroupNormalization", (X, draw(4), draw(4)), (1, 4, 8, 8), opset=21, attributes={"num_groups": 2}
    ),
    "LRN": Case("LRN", (IMAGE,), (1, 3, 8, 8), attributes={"size": 3}),
    "Gelu": Case("Gelu", (M,), (4, 6), opset=20),
    **{f"Resize {mode}": Case("Resize", (IMAGE, EMPTY, f32(1, 1, 2, 2)), (1, 3, 16, 16), attributes={"mode": mode})
       for mode in ("nearest", "linear", "cubic")},
    "Resize of volumes": Case("Resize", (((1, 2, 3, 4, 5), FLOAT), EMPTY, f32(1, 1, 2, 2, 2)), (1, 2, 6, 8, 10)),
    "GridSample": Case("GridSample", (IMAGE, ((1, 4, 4, 2), FLOAT)), (1, 3, 4, 4)),
    "AffineGrid": Case("AffineGrid", (((1, 2, 3), FLOAT), i64(1, 3, 4, 4)), (1, 4, 4, 2), opset=20),
    "QuantizeLinear": Case("QuantizeLinear", (M, scalar(0.1), scalar(3, np.uint8)), (4, 6), UINT8),
    "DynamicQuantizeLinear": Case("DynamicQuantizeLinear", (M,), (4, 6), UINT8, more=(((), FLOAT), ((), UINT8))),
}  # fmt: skip

# what no Relax operator says; the step of it is kept as TVM's code
CODE = {
    "resize lines smoothly": Case("Resize", (V, EMPTY, f32(1, 1, 2)), (2, 3, 20), attributes={"mode": "cubic"}),
    "RoiAlign": Case("RoiAlign", (IMAGE, ((2, 4), FLOAT), i64(0, 0)), (2, 3, 2, 2),
                     attributes={"output_height": 2, "output_width": 2}),
    "pad by a large integer": Case("Pad", (((4,), INT64), i64(0, 1), scalar(2**62 + 1, np.int64)), (5,), INT64),
}  # fmt: skip
