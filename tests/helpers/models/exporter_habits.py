"""Small models with the habits of frameworks' exporters, in the opsets that they write."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class Layer:
    """One node; ``_`` among ``inputs`` is an input left out."""

    op: str
    inputs: str
    outputs: str
    attributes: dict[str, Any]

    def node(self, index: int) -> onnx.NodeProto:
        inputs = ["" if name == "_" else name for name in self.inputs.split()]
        outputs = self.outputs.split()
        return helper.make_node(self.op, inputs, outputs, name=f"{self.op}.{index}", **self.attributes)


@dataclass(frozen=True)
class Habit:
    """A model of the input ``x`` and the output ``y``; a constant is an array, or the shape of one to draw."""

    x: tuple[int, ...]
    layers: tuple[Layer, ...]
    opsets: tuple[int, ...]
    constants: dict[str, Any] = field(default_factory=dict)

    def model(self, opset: int) -> onnx.ModelProto:
        """The model, of the IR version of that time, and without the shape of its output."""
        random = np.random.default_rng(0)
        arrays = {
            name: random.standard_normal(value).astype(np.float32) if isinstance(value, tuple) else value
            for name, value in self.constants.items()
        }
        constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
        old = opset < 11  # then initializers were inputs too
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.x)]
        inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in constants if old]
        graph = helper.make_graph(
            [layer.node(index) for index, layer in enumerate(self.layers)],
            "habit",
            inputs,
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3 if old else 8)


def layer(op: str, inputs: str = "x", outputs: str = "y", **attributes: Any) -> Layer:
    return Layer(op, inputs, outputs, attributes)


def one(x: tuple[int, ...], op: str, inputs: str = "x", opsets: tuple[int, ...] = (9, 13), **more: Any) -> Habit:
    """A model of one node; arguments that are arrays or tuples called ``c_`` something are constants."""
    constants = {name: value for name, value in more.items() if name.startswith("c_")}
    attributes = {name: value for name, value in more.items() if name not in constants}
    return Habit(x, (layer(op, inputs, **attributes),), opsets, constants)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


IMAGE, SQUARE, LINES, ROWS = (2, 4, 9, 8), (2, 4, 9, 9), (2, 4, 11), (3, 8)
NORM = {"scale": (6,), "shift": (6,), "mean": (6,), "var": np.linspace(0.5, 2, 6, dtype=np.float32)}
AXES = [2, 3]

CONVOLUTIONS = {
    "conv": one(IMAGE, "Conv", "x c_w c_b", c_w=(6, 4, 3, 3), c_b=(6,), pads=[1, 1, 1, 1]),
    "conv, uneven pads": one(IMAGE, "Conv", "x c_w", c_w=(6, 4, 3, 2), pads=[0, 2, 1, 1], strides=[2, 1]),
    "conv, same": one(IMAGE, "Conv", "x c_w", c_w=(6, 4, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    "conv, same below": one(IMAGE, "Conv", "x c_w", c_w=(6, 4, 3, 3), auto_pad="SAME_LOWER", strides=[2, 2]),
    "conv, valid": one(IMAGE, "Conv", "x c_w", c_w=(6, 4, 3, 3), auto_pad="VALID"),
    "conv, groups": one(IMAGE, "Conv", "x c_w c_b", c_w=(6, 2, 3, 3), c_b=(6,), group=2),
    "conv, depthwise": one(IMAGE, "Conv", "x c_w", c_w=(8, 1, 3, 3), group=4, pads=[1, 1, 1, 1]),
    "conv, dilated": one(IMAGE, "Conv", "x c_w", c_w=(6, 4, 3, 3), dilations=[2, 2], pads=[2, 2, 2, 2]),
    "conv of lines": one(LINES, "Conv", "x c_w c_b", c_w=(6, 4, 3), c_b=(6,), pads=[1, 2], strides=[2], dilations=[2]),
    "conv of lines, same": one(LINES, "Conv", "x c_w", c_w=(6, 4, 4), auto_pad="SAME_UPPER", strides=[2]),
    "conv of lines, depthwise": one(LINES, "Conv", "x c_w", c_w=(4, 1, 3), group=4),
}

TRANSPOSED = {
    "transposed": one(IMAGE, "ConvTranspose", "x c_w c_b", (9,), c_w=(4, 6, 3, 3), c_b=(6,), strides=[2, 2],
                      pads=[1, 1, 1, 1], output_padding=[1, 1]),
    "transposed, uneven": one(IMAGE, "ConvTranspose", "x c_w", (11,), c_w=(4, 6, 3, 4), strides=[3, 2],
                              pads=[0, 1, 2, 1], output_padding=[2, 0]),
    "transposed, groups": one(IMAGE, "ConvTranspose", "x c_w c_b", (13,), c_w=(4, 3, 2, 2), c_b=(6,), strides=[2, 2],
                              group=2),
    "transposed, depthwise": one(IMAGE, "ConvTranspose", "x c_w", (13,), c_w=(4, 1, 4, 4), strides=[2, 2],
                                 pads=[1, 1, 1, 1], group=4),
    "transposed, dilated": one(IMAGE, "ConvTranspose", "x c_w", (13,), c_w=(4, 6, 3, 3), strides=[2, 2],
                               dilations=[2, 2]),
    "transposed, to a shape": one(IMAGE, "ConvTranspose", "x c_w", (9, 13), c_w=(4, 6, 3, 3), strides=[2, 2],
                                  output_shape=[18, 17]),
    "transposed, to a larger shape": one(IMAGE, "ConvTranspose", "x c_w", (13,), c_w=(4, 6, 3, 3), strides=[2, 2],
                                         output_shape=[20, 18]),
    "transposed, to a shape, same": one(IMAGE, "ConvTranspose", "x c_w", (13,), c_w=(4, 6, 3, 3), strides=[2, 2],
                                        output_shape=[18, 16], auto_pad="SAME_UPPER"),
    "transposed, same": one(IMAGE, "ConvTranspose", "x c_w", (9, 13), c_w=(4, 6, 4, 3), strides=[2, 2],
                            auto_pad="SAME_UPPER"),
    "transposed, same below": one(IMAGE, "ConvTranspose", "x c_w", (13,), c_w=(4, 6, 4, 3), strides=[2, 2],
                                  auto_pad="SAME_LOWER"),
    "transposed, valid": one(IMAGE, "ConvTranspose", "x c_w", (13,), c_w=(4, 6, 3, 3), auto_pad="VALID"),
    "transposed, of lines": one(LINES, "ConvTranspose", "x c_w c_b", (13,), c_w=(4, 6, 4), c_b=(6,), strides=[2],
                                pads=[1, 1], output_padding=[1]),
    "transposed, of lines, groups": one(LINES, "ConvTranspose", "x c_w", (13,), c_w=(4, 3, 4), strides=[2], group=2),
}  # fmt: skip


def _pooling(op: str) -> dict[str, Habit]:
    name = {"MaxPool": "max", "AveragePool": "average"}[op]
    return {
        f"{name} pool": one(IMAGE, op, opsets=(9, 11), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        f"{name} pool, uneven pads": one(IMAGE, op, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1]),
        f"{name} pool, no strides": one(IMAGE, op, kernel_shape=[3, 2]),
        f"{name} pool, ceil": one(IMAGE, op, opsets=(10, 13, 19), kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1),
        f"{name} pool, ceil and pads": one(SQUARE, op, opsets=(11, 19), kernel_shape=[3, 3], strides=[3, 3],
                                           pads=[1, 1, 1, 1], ceil_mode=1),
        f"{name} pool, same": one(IMAGE, op, opsets=(9, 19), kernel_shape=[3, 3], strides=[2, 2],
                                  auto_pad="SAME_UPPER"),
        f"{name} pool, same below": one(IMAGE, op, opsets=(11,), kernel_shape=[2, 2], strides=[2, 2],
                                        auto_pad="SAME_LOWER"),
        f"{name} pool, valid": one(IMAGE, op, opsets=(11,), kernel_shape=[2, 2], strides=[2, 2], auto_pad="VALID"),
        f"{name} pool of lines": one(LINES, op, kernel_shape=[3], strides=[2], pads=[1, 1]),
    }  # fmt: skip


POOLS = {
    **_pooling("MaxPool"),
    **_pooling("AveragePool"),
    "max pool, dilated": one(IMAGE, "MaxPool", opsets=(10, 13), kernel_shape=[3, 2], dilations=[2, 3],
                             pads=[1, 1, 0, 1]),
    "max pool, dilated and ceil": one(IMAGE, "MaxPool", opsets=(13,), kernel_shape=[2, 2], dilations=[2, 2],
                                      strides=[2, 2], ceil_mode=1),
    "average pool, dilated": one(IMAGE, "AveragePool", opsets=(19,), kernel_shape=[2, 2], dilations=[2, 2]),
    "average pool, with pads": one(IMAGE, "AveragePool", opsets=(9, 13, 19), kernel_shape=[3, 3], strides=[2, 2],
                                   pads=[1, 1, 1, 1], count_include_pad=1),
    "average pool, with pads and ceil": one(IMAGE, "AveragePool", opsets=(11, 19), kernel_shape=[3, 3],
                                            strides=[2, 2], pads=[1, 0, 0, 1], ceil_mode=1, count_include_pad=1),
    "average pool of lines, with pads and ceil": one(LINES, "AveragePool", opsets=(13,), kernel_shape=[4], strides=[3],
                                                     pads=[1, 0], ceil_mode=1, count_include_pad=1),
    "global average": one(IMAGE, "GlobalAveragePool"),
    "global average of lines": one(LINES, "GlobalAveragePool"),
    "global maximum": one(IMAGE, "GlobalMaxPool"),
    "mean of space": one(IMAGE, "ReduceMean", opsets=(9, 13), axes=AXES),
    "mean of space, squeezed": one(IMAGE, "ReduceMean", opsets=(11, 17), axes=[-2, -1], keepdims=0),
    "mean of space by an input": one(IMAGE, "ReduceMean", "x c_a", (18, 21), c_a=i64(2, 3), keepdims=0),
    "sum of space": one(IMAGE, "ReduceSum", opsets=(9, 11), axes=AXES),
    "sum of space by an input": one(IMAGE, "ReduceSum", "x c_a", (13, 21), c_a=i64(2, 3)),
}  # fmt: skip

PADDED = {
    "pad, then conv": Habit(IMAGE, (layer("Pad", "x", "p", pads=[0, 0, 1, 1, 0, 0, 2, 2]),
                                    layer("Conv", "p w", strides=[2, 2])), (9, 10), {"w": (6, 4, 3, 3)}),
    "pad by an input, then conv": Habit(IMAGE, (layer("Pad", "x widths", "p"), layer("Conv", "p w")), (11, 13, 21),
                                        {"w": (6, 4, 3, 3), "widths": i64(0, 0, 1, 1, 0, 0, 2, 2)}),
    "pad by axes, then conv": Habit(IMAGE, (layer("Pad", "x widths _ axes", "p"), layer("Conv", "p w")), (18,),
                                    {"w": (6, 4, 3, 3), "widths": i64(1, 1, 2, 2), "axes": i64(2, 3)}),
    "pad, then max": Habit(IMAGE, (layer("Relu", "x", "r"), layer("Pad", "r widths", "p"),
                                   layer("MaxPool", "p", kernel_shape=[3, 3], strides=[2, 2])), (11,),
                           {"widths": i64(0, 0, 0, 0, 0, 0, 1, 1)}),
    "pad, then average": Habit(IMAGE, (layer("Pad", "x widths zero", "p"),
                                       layer("AveragePool", "p", kernel_shape=[3, 3])), (11,),
                               {"widths": i64(0, 0, 1, 1, 0, 0, 1, 1), "zero": np.float32(0)}),
    "pad by a value": Habit(IMAGE, (layer("Pad", "x", "p", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=1.5),
                                    layer("Conv", "p w")), (9,), {"w": (6, 4, 3, 3)}),
    "reflect": one(IMAGE, "Pad", opsets=(9,), pads=[0, 0, 1, 1, 0, 0, 1, 1], mode="reflect"),
}  # fmt: skip

ACTIVATIONS = {
    "relu6": one(IMAGE, "Clip", opsets=(9, 10), min=0.0, max=6.0),
    "relu6 by inputs": one(IMAGE, "Clip", "x c_l c_h", (11, 12, 13), c_l=np.float32(0), c_h=np.float32(6)),
    "clip above": one(IMAGE, "Clip", opsets=(9,), max=0.5),
    "clip below by an input": one(IMAGE, "Clip", "x c_l", (11,), c_l=np.float32(0)),
    "softmax": one(ROWS, "Softmax", opsets=(9, 11)),
    "softmax of channels": one((2, 8, 1, 1), "Softmax", opsets=(9,)),
    "softmax, flattening": one((2, 3, 4, 5), "Softmax", opsets=(9, 11), axis=2),
    "softmax, flattening all": one((2, 3, 4), "Softmax", opsets=(9,), axis=0),
    "softmax, last axis": one((2, 3, 4), "Softmax", opsets=(11, 12, 13), axis=-1),
    "log softmax, flattening": one((2, 3, 4), "LogSoftmax", opsets=(9,)),
    "hard swish": one(IMAGE, "HardSwish", opsets=(14, 21)),
    "hard swish, in parts": Habit(
        IMAGE,
        (layer("Add", "x three", "a"), layer("Clip", "a", "c", min=0.0, max=6.0), layer("Mul", "x c", "m"),
         layer("Div", "m six")), (9,), {"three": np.float32(3), "six": np.float32(6)}),
    "hard swish of hard sigmoid": Habit(
        IMAGE, (layer("HardSigmoid", "x", "h", alpha=1 / 6, beta=0.5), layer("Mul", "x h")), (9, 13)),
    "swish": Habit(IMAGE, (layer("Sigmoid", "x", "s"), layer("Mul", "x s")), (9, 13)),
    "normalisation of responses": one(IMAGE, "LRN", opsets=(9, 13), size=3, alpha=0.1, beta=0.75, bias=2.0),
    "prelu": one(IMAGE, "PRelu", "x c_s", (9, 16), c_s=(4, 1, 1)),
    "leaky": one(IMAGE, "LeakyRelu", opsets=(9, 16), alpha=0.1),
}  # fmt: skip

NETWORKS = {
    "batch norm": Habit(IMAGE, (layer("Conv", "x w", "c"), layer("BatchNormalization", "c scale shift mean var", "n"),
                                layer("Relu", "n")), (9, 14, 15), {"w": (6, 4, 3, 3), **NORM}),
    "batch norm of lines": Habit(LINES, (layer("Conv", "x w", "c"),
                                         layer("BatchNormalization", "c scale shift mean var", epsilon=0.01)),
                                 (9, 14), {"w": (6, 4, 3), **NORM}),
    "batch norm of rows": Habit((3, 6), (layer("BatchNormalization", "x scale shift mean var"),), (9, 15), NORM),
    "batch norm in caffe's parts": Habit(
        IMAGE, (layer("Conv", "x w", "c"), layer("BatchNormalization", "c scale shift mean var", "n"),
                layer("Unsqueeze", "scale", "s", axes=[1, 2]), layer("Mul", "n s", "m"),
                layer("Unsqueeze", "shift", "t", axes=[1, 2]), layer("Add", "m t")),
        (9,), {"w": (6, 4, 3, 3), **NORM}),
    "gemm": one(ROWS, "Gemm", "x c_w c_b", (9, 11), c_w=(8, 5), c_b=(5,)),
    "gemm, transposed": one(ROWS, "Gemm", "x c_w c_b", (9, 13), c_w=(5, 8), c_b=(1, 5), transB=1, alpha=0.5, beta=2.0),
    "gemm without bias": one(ROWS, "Gemm", "x c_w", (11, 13), c_w=(5, 8), transB=1),
    "gemm of columns": one(ROWS, "Gemm", "x c_w", (13,), c_w=(3, 5), transA=1),
    "head": Habit(IMAGE, (layer("GlobalAveragePool", "x", "g"), layer("Flatten", "g", "f"),
                          layer("Gemm", "f w b", "z", transB=1), layer("Softmax", "z")), (9, 13),
                  {"w": (5, 4), "b": (5,)}),
    "flatten": one(IMAGE, "Flatten", opsets=(9, 13), axis=2),
    "flatten from the end": one(IMAGE, "Flatten", opsets=(11,), axis=-1),
    "reshape": one(IMAGE, "Reshape", "x c_s", (9, 14), c_s=i64(0, -1)),
    "shuffle": Habit(IMAGE, (layer("Reshape", "x wide", "a"), layer("Transpose", "a", "b", perm=[0, 2, 1, 3, 4]),
                             layer("Reshape", "b back")), (9, 13), {"wide": i64(2, 2, 2, 9, 8), "back": i64(*IMAGE)}),
    "concat": Habit(IMAGE, (layer("Relu", "x", "r"), layer("Concat", "x r x", axis=1)), (9, 13)),
    "concat from the end": Habit(IMAGE, (layer("Relu", "x", "r"), layer("Concat", "x r", axis=-1)), (11,)),
    "sum of three": Habit(IMAGE, (layer("Relu", "x", "r"), layer("Neg", "x", "n"), layer("Sum", "x r n")), (9, 13)),
    "dropout": Habit(IMAGE, (layer("Relu", "x", "r"), layer("Dropout", "r", "d", ratio=0.5), layer("Relu", "d")), (9,)),
    "dropout with a mask": Habit(IMAGE, (layer("Dropout", "x", "d mask", ratio=0.5), layer("Relu", "d")), (9, 10)),
    "dropout by inputs": Habit(IMAGE, (layer("Dropout", "x ratio training", "d"), layer("Relu", "d")), (12, 13),
                               {"ratio": np.float32(0.5), "training": np.array(False)}),
    "identity": Habit(IMAGE, (layer("Identity", "w", "v"), layer("Conv", "x v", "c"), layer("Identity", "c")), (9, 13),
                      {"w": (6, 4, 3, 3)}),
    "split": Habit(IMAGE, (layer("Split", "x", "a b", axis=1, split=[1, 3]), layer("Concat", "b a", axis=1)), (9, 11)),
    "split in halves": Habit(IMAGE, (layer("Split", "x", "a b", axis=1), layer("Concat", "b a", axis=1)), (9, 13)),
    "split by an input": Habit(IMAGE, (layer("Split", "x sizes", "a b", axis=1), layer("Concat", "b a", axis=1)),
                               (13, 18), {"sizes": i64(1, 3)}),
    "split in numbers": Habit(IMAGE, (layer("Split", "x", "a b", axis=2, num_outputs=2),
                                      layer("Concat", "b a", axis=2)), (18, 21)),
    "squeeze": Habit((2, 8, 1, 1), (layer("Squeeze", "x", "s", axes=AXES), layer("Unsqueeze", "s", axes=[0])), (9, 11)),
    "squeeze by inputs": Habit((2, 8, 1, 1), (layer("Squeeze", "x two", "s"), layer("Unsqueeze", "s zero")), (13, 21),
                               {"two": i64(2, 3), "zero": i64(0)}),
    "squeeze everything": one((2, 8, 1, 1), "Squeeze"),
    "slice": one(IMAGE, "Slice", opsets=(9,), axes=[1, 3], starts=[1, -5], ends=[3, 100]),
    "slice of the first axes": one(IMAGE, "Slice", opsets=(9,), starts=[1], ends=[2]),
    "slice by inputs": one(IMAGE, "Slice", "x c_s c_e c_a c_t", (10, 13), c_s=i64(0, 1), c_e=i64(4, 9), c_a=i64(1, 2),
                           c_t=i64(2, 2)),
    "scatter": Habit(ROWS, (layer("Scatter", "x at new", axis=1),), (9,),
                     {"at": np.array([[1, 0], [0, 2], [3, 1]]), "new": (3, 2)}),
    "constants as nodes": Habit(
        IMAGE, (layer("Constant", "", "w", value=numpy_helper.from_array(np.ones((6, 4, 3, 3), np.float32))),
                layer("Constant", "", "s", value=numpy_helper.from_array(np.array(2, np.float32))),
                layer("Conv", "x w", "c"), layer("Mul", "c s")), (9, 13)),
    "constants of many kinds": Habit(
        IMAGE, (layer("Constant", "", "shape", value_ints=[2, 4, 72]), layer("Constant", "", "s", value_float=2.0),
                layer("Reshape", "x shape", "r"), layer("Mul", "r s")), (12, 17)),
}  # fmt: skip

UPSAMPLED = {
    "upsample": one(IMAGE, "Upsample", "x c_s", (9,), c_s=f32(1, 1, 2, 2), mode="nearest"),
    "upsample, linear": one(IMAGE, "Upsample", "x c_s", (9,), c_s=f32(1, 1, 2, 3), mode="linear"),
    "upsample by a fraction": one(IMAGE, "Upsample", "x c_s", (9,), c_s=f32(1, 1, 1.5, 1.7)),
    "upsample of lines": one(LINES, "Upsample", "x c_s", (9,), c_s=f32(1, 1, 2)),
    "resize, nearest": one(IMAGE, "Resize", "x c_s", (10,), c_s=f32(1, 1, 2, 2)),
    "resize, linear": one(IMAGE, "Resize", "x c_s", (10,), c_s=f32(1, 1, 2, 2), mode="linear"),
    "resize, smaller": one(IMAGE, "Resize", "x c_s", (10,), c_s=f32(1, 1, 0.5, 0.7)),
    "resize, pytorch": one(IMAGE, "Resize", "x c_r c_s", (11, 13, 18), c_r=f32(), c_s=f32(1, 1, 2, 2),
                           coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor"),
    "resize, pytorch, linear": one(IMAGE, "Resize", "x _ c_s", (13, 19), c_s=f32(1, 1, 2, 2), mode="linear",
                                   coordinate_transformation_mode="pytorch_half_pixel"),
    "resize, between corners": one(IMAGE, "Resize", "x _ _ c_n", (13, 19), c_n=i64(2, 4, 17, 15), mode="linear",
                                   coordinate_transformation_mode="align_corners"),
    "resize, tensorflow": one(IMAGE, "Resize", "x _ _ c_n", (13,), c_n=i64(2, 4, 18, 16), mode="nearest",
                              coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil"),
    "resize, of axes": one(IMAGE, "Resize", "x _ c_s", (18, 19), c_s=f32(2, 2), axes=[2, 3], mode="linear"),
    "resize, of axes to sizes": one(IMAGE, "Resize", "x _ _ c_n", (18,), c_n=i64(18, 16), axes=[2, 3]),
}  # fmt: skip


def _value(name: str, value: Any) -> Layer:
    return layer("Constant", "", name, value=numpy_helper.from_array(np.asarray(value)))


SHAPE = layer("Shape", "x", "shape")
INDICES = {"zero": i64(0), "two": i64(2), "four": i64(4), "rest": i64(-1), "first": np.array(0), "second": np.array(1)}
COMPUTED = {
    "flatten by a computed shape": Habit(
        IMAGE,
        (SHAPE, layer("Gather", "shape first", "n"), layer("Unsqueeze", "n", "n1", axes=[0]), _value("all", i64(-1)),
         layer("Concat", "n1 all", "to", axis=0), layer("Reshape", "x to")), (9, 11), INDICES),
    "flatten by a computed shape, axes as inputs": Habit(
        IMAGE, (SHAPE, layer("Gather", "shape first", "n"), layer("Unsqueeze", "n zero", "n1"),
                layer("Concat", "n1 rest", "to", axis=0), layer("Reshape", "x to")), (13, 21), INDICES),
    "sizes by slices": Habit(
        IMAGE, (SHAPE, layer("Slice", "shape zero two zero", "nc"), layer("Concat", "nc hw", "to", axis=0),
                layer("Resize", "x none none to", mode="nearest")), (11, 13),
        {**INDICES, "none": f32(), "hw": i64(18, 16)}),
    "arithmetic on shapes": Habit(
        IMAGE, (SHAPE, layer("Gather", "shape second", "c"), layer("Div", "c two", "half"),
                layer("Gather", "shape first", "n"), layer("Unsqueeze", "n zero", "n1"),
                layer("Concat", "n1 two half rest", "to", axis=0), layer("Reshape", "x to")), (13,), INDICES),
    "sizes by floats": Habit(
        IMAGE, (SHAPE, layer("Slice", "shape two four", "hw"), layer("Cast", "hw", "f", to=TensorProto.FLOAT),
                layer("Mul", "f twice", "g"), layer("Floor", "g", "h"), layer("Cast", "h", "hw2", to=TensorProto.INT64),
                layer("Slice", "shape zero two", "nc"), layer("Concat", "nc hw2", "to", axis=0),
                layer("Resize", "x none none to", mode="linear")), (11, 13),
        {**INDICES, "none": f32(), "twice": np.float32(2)}),
    "scales of an upsampling": Habit(
        IMAGE, (SHAPE, layer("Slice", "shape", "hw", starts=[2], ends=[4]), layer("Cast", "hw", "f", to=1),
                layer("Mul", "f twice", "g"), layer("Div", "g f", "s"), layer("Concat", "ones s", "scales", axis=0),
                layer("Upsample", "x scales")), (9,), {"twice": np.float32(2), "ones": f32(1, 1)}),
    "expand to a shape": Habit(
        (2, 4, 1, 1), (layer("Shape", "w", "s"), layer("ConstantOfShape", "s", "o"), layer("Shape", "o", "to"),
                       layer("Expand", "x to")), (9, 13), {"w": (2, 4, 3, 3)}),
    "pads by a computed vector": Habit(
        IMAGE, (layer("ConstantOfShape", "four", "none", value=numpy_helper.from_array(i64(0))),
                layer("Concat", "given none", "all", axis=0), layer("Reshape", "all pairs", "table"),
                layer("Slice", "table rest far zero rest", "turned"), layer("Transpose", "turned", "columns"),
                layer("Reshape", "columns rest", "flat"), layer("Cast", "flat", "widths", to=TensorProto.INT64),
                layer("Pad", "x widths blank", "p"), layer("Conv", "p w")), (11, 13),
        {**INDICES, "given": i64(1, 2, 0, 1), "pairs": i64(-1, 2), "far": i64(-(2**62)), "blank": np.float32(0),
         "w": (6, 4, 3, 3)}),
    "two shapes, one after the other": Habit(
        IMAGE, (SHAPE, layer("Gather", "shape first", "n"), layer("Unsqueeze", "n zero", "n1"),
                layer("Concat", "n1 rest", "to", axis=0), layer("Reshape", "x to", "rows"),
                layer("Shape", "rows", "s2"), layer("Gather", "s2 second", "c"), layer("Unsqueeze", "c zero", "c1"),
                layer("Concat", "rest c1", "to2", axis=0), layer("Reshape", "rows to2")), (13,), INDICES),
}  # fmt: skip

HABITS = CONVOLUTIONS | TRANSPOSED | POOLS | PADDED | ACTIVATIONS | NETWORKS | UPSAMPLED | COMPUTED
