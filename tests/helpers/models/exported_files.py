"""Files with the habits of exporters that are no matter of layers: types, constants, functions, control flow, names."""

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

IMAGE = (1, 4, 8, 8)
DOMAIN = "pkg.torch.2.9"
_TYPES = {
    TensorProto.FLOAT16: np.float16,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
    TensorProto.DOUBLE: np.float64,
    TensorProto.FLOAT: np.float32,
}
Inits = Sequence[onnx.TensorProto]
node = helper.make_node


def info(name: str, *shape: int, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """A tensor of a type and shape."""
    return helper.make_tensor_value_info(name, kind, shape)


def untyped(name: str) -> onnx.ValueInfoProto:
    """A float32 tensor of any shape, as results of subgraphs are declared."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def weights(name: str, *shape: int, kind: int = TensorProto.FLOAT) -> onnx.TensorProto:
    """Seeded random weights."""
    random = np.random.default_rng(len(name) + sum(shape))
    return numpy_helper.from_array((random.standard_normal(shape) * 0.3).astype(_TYPES[kind]), name)


def constant(name: str, value: npt.ArrayLike, dtype: npt.DTypeLike = np.int64) -> onnx.TensorProto:
    """A constant."""
    return numpy_helper.from_array(np.array(value, dtype), name)


def graph(nodes: list[onnx.NodeProto], inputs: Any, outputs: Any, inits: Inits = ()) -> onnx.GraphProto:
    """A graph, or a body."""
    return helper.make_graph(nodes, "g", inputs, outputs, list(inits))


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    inits: Inits = (),
    *,
    functions: Sequence[onnx.FunctionProto] = (),
    opset: int = 17,
) -> onnx.ModelProto:
    """A model that onnxruntime loads."""
    used = [helper.make_opsetid("", opset), *([helper.make_opsetid(DOMAIN, 1)] if functions else [])]
    whole = graph(nodes, inputs, outputs, inits)
    return helper.make_model(whole, opset_imports=used, functions=list(functions), ir_version=8)


def function(
    name: str, inputs: list[str], outputs: list[str], nodes: list[onnx.NodeProto], attributes: Sequence[str] = ()
) -> onnx.FunctionProto:
    """A local function, as torch's exporter with dynamo writes one for each module."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_function(DOMAIN, name, inputs, outputs, nodes, imports, list(attributes))


def half(kind: int, *, keep_io: bool) -> onnx.ModelProto:
    """A network in another type of floats, with Casts around the softmax; ``keep_io``: and around all of it."""
    first = [node("Cast", ["x"], ["x16"], to=kind)] if keep_io else []
    last = [node("Cast", ["y16"], ["y"], to=TensorProto.FLOAT)] if keep_io else []
    data, result = ("x16", "y16") if keep_io else ("x", "y")
    outside = TensorProto.FLOAT if keep_io else kind
    nodes = [
        *first,
        node("MatMul", [data, "w"], ["m"]),
        node("Add", ["m", "b"], ["a"]),
        node("Relu", ["a"], ["r"]),
        node("Cast", ["r"], ["wide"], to=TensorProto.FLOAT),
        node("Softmax", ["wide"], ["soft"]),
        node("Cast", ["soft"], ["narrow"], to=kind),
        node("Mul", ["narrow", "r"], ["p"]),
        node("MatMul", ["p", "v"], [result]),
        *last,
    ]
    inits = [weights("w", 8, 16, kind=kind), weights("b", 16, kind=kind), weights("v", 16, 4, kind=kind)]
    return model(nodes, [info("x", 2, 8, kind=outside)], [info("y", 2, 4, kind=outside)], inits)


def masked_double() -> onnx.ModelProto:
    """Attention's mask of the lowest float64, which is beyond float32."""
    nodes = [node("Where", ["m", "low", "x"], ["a"]), node("Softmax", ["a"], ["s"]), node("MatMul", ["s", "w"], ["y"])]
    lowest = constant("low", np.finfo(np.float64).min, np.float64)
    inits = [constant("m", [[0, 0, 0, 1], [0, 0, 0, 0]], bool), lowest, weights("w", 4, 3, kind=TensorProto.DOUBLE)]
    ends = [[info(name, *shape, kind=TensorProto.DOUBLE)] for name, shape in (("x", (2, 4)), ("y", (2, 3)))]
    return model(nodes, *ends, inits)


def convolved(
    *nodes: onnx.NodeProto, inits: Inits = (), data: str = "k", more: Sequence[onnx.ValueInfoProto] = ()
) -> onnx.ModelProto:
    """Nodes that make ``data`` of the image x, and a convolution of that."""
    convolution = node("Conv", [data, "cw", "cb"], ["y"], pads=[1] * 4)
    return model(
        [*nodes, convolution], [info("x", *IMAGE), *more], [info("y", 1, 8, 8, 8)],
        [weights("cw", 8, 4, 3, 3), weights("cb", 8), *inits],
    )  # fmt: skip


def with_outputs(made: onnx.ModelProto, *outputs: onnx.ValueInfoProto) -> onnx.ModelProto:
    """A model with further outputs."""
    made.graph.output.extend(outputs)
    return made


def local_functions() -> onnx.ModelProto:
    """Functions that call others, with an attribute that is passed on and constants inside."""
    product = [node("Transpose", ["w"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["m"])]
    linear = function("Linear", ["x", "w", "b"], ["y"], [*product, node("Add", ["m", "b"], ["y"])])
    scaled = function(
        "Scaled", ["x"], ["y"],
        [node("Constant", [], ["h"], value_float=0.5), node("Mul", ["x", "h"], ["a"]), node("Sigmoid", ["a"], ["y"])],
    )  # fmt: skip
    body = [
        node("Linear", ["x", "w", "b"], ["t"], domain=DOMAIN, name="linear"),
        node("Scaled", ["t"], ["g"], domain=DOMAIN),
        node("LeakyRelu", ["g"], ["o"]),
    ]
    body[2].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    block = function("Block", ["x", "w", "b"], ["o"], body, ["slope"])
    calls = [
        node("Block", ["x", "w0", "b0"], ["a"], domain=DOMAIN, name="block0", slope=0.25),
        node("Block", ["a", "w1", "b1"], ["y"], domain=DOMAIN, name="block1", slope=0.125),
    ]
    inits = [weights("w0", 8, 8), weights("b0", 8), weights("w1", 8, 8), weights("b1", 8)]
    return model(calls, [info("x", 2, 8)], [info("y", 2, 8)], inits, functions=[linear, scaled, block])


def branch(condition: onnx.TensorProto | None, *before: onnx.NodeProto) -> onnx.ModelProto:
    """An If of the condition ``c``: a convolution with weights of the scope around it, or Relu; then Relu."""
    taken = graph([node("Conv", ["x", "cw", "tb"], ["t"], pads=[1] * 4)], [], [untyped("t")], [weights("tb", 4)])
    other = graph([node("Relu", ["x"], ["e"])], [], [untyped("e")])
    nodes = [*before, node("If", ["c"], ["o"], then_branch=taken, else_branch=other, name="pick")]
    inits = [weights("cw", 4, 4, 3, 3), *([] if condition is None else [condition]), constant("zero", 0, np.float32),
             constant("first", 0), constant("one", 1)]  # fmt: skip
    return model([*nodes, node("Relu", ["o"], ["y"])], [info("x", *IMAGE)], [info("y", *IMAGE)], inits)


def loop(times: int, *ending: onnx.NodeProto, carried: int = 3) -> onnx.ModelProto:
    """A Loop with a state, a slice of x for each iteration, an If within, and a result of all iterations."""
    branches = [graph([node(op, ["h"], [out])], [], [untyped(out)]) for op, out in (("Relu", "t"), ("Neg", "e"))]
    body = graph(
        [
            node("MatMul", ["hin", "w"], ["h"]),
            node("Equal", ["i", "nought"], ["even"]),
            node("If", ["even"], ["hr"], then_branch=branches[0], else_branch=branches[1]),
            node("Gather", ["x", "i"], ["xi"], axis=0),
            node("Add", ["hr", "xi"], ["hout"]),
            node("Identity", ["hout"], ["each"]),
            *(ending or [node("Identity", ["cin"], ["cout"])]),
        ],
        [info("i", kind=TensorProto.INT64), info("cin", kind=TensorProto.BOOL), info("hin", 1, 4)],
        [info("cout", kind=TensorProto.BOOL), info("hout", 1, 4), info("each", 1, 4)],
        [constant("nought", 0)],
    )
    nodes = [node("Loop", ["m", "c", "h0"], ["hn", "all"], body=body, name="steps"), node("MatMul", ["hn", "w"], ["y"])]
    inits = [weights("w", 4, 4), constant("m", times), constant("c", True, bool), weights("h0", 1, 4)]
    return model(nodes, [info("x", carried, 1, 4)], [info("y", 1, 4), untyped("all")], inits)


def scan() -> onnx.ModelProto:
    """A Scan from the end, whose results lie along another axis the other way."""
    body = graph(
        [node("MatMul", ["h", "w"], ["hw"]), node("Add", ["hw", "xi"], ["ho"]), node("Tanh", ["ho"], ["o"])],
        [info("h", 1, 4), info("xi", 1, 4)],
        [info("ho", 1, 4), info("o", 1, 4)],
    )
    turned = {"scan_input_directions": [1], "scan_output_directions": [1], "scan_output_axes": [1]}
    nodes = [node("Scan", ["h0", "x"], ["hn", "y"], body=body, num_scan_inputs=1, name="steps", **turned)]
    return model(
        nodes, [info("x", 5, 1, 4)], [info("y", 1, 5, 4), info("hn", 1, 4)], [weights("w", 4, 4), weights("h0", 1, 4)]
    )


def constant_forms() -> onnx.ModelProto:
    """Constants of all forms that are numbers."""
    sparse = helper.make_sparse_tensor(constant("", [1.5, -2], np.float32), constant("", [1, 5]), [2, 4])
    nodes = [
        node("Constant", [], ["f"], value_float=0.5),
        node("Constant", [], ["fs"], value_floats=[0.5, 1.0, 2.0, 3.0]),
        node("Constant", [], ["axes"], value_ints=[0]),
        node("Constant", [], ["one"], value_int=1),
        node("Constant", [], ["sparse"], sparse_value=sparse),
        node("Mul", ["x", "f"], ["m"]),
        node("Add", ["m", "fs"], ["a"]),
        node("Gather", ["a", "one"], ["row"]),
        node("Unsqueeze", ["row", "axes"], ["u"]),
        node("MatMul", ["sparse", "w"], ["sw"]),
        node("Add", ["u", "sw"], ["s"]),
        node("MatMul", ["s", "w"], ["y"]),
    ]
    return model(nodes, [info("x", 3, 4)], [info("y", 2, 4)], [weights("w", 4, 4)])


def sparse_weights() -> onnx.ModelProto:
    """A sparse initializer whose places are given axis by axis."""
    made = model([node("MatMul", ["x", "w"], ["y"])], [info("x", 2, 4)], [info("y", 2, 3)])
    values, places = constant("w", [1.5, -2, 0.7], np.float32), constant("", [[0, 1], [2, 2], [3, 0]])
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4, 3]))
    return made


def unread_outputs() -> onnx.ModelProto:
    """Optional outputs that have names, and that nobody reads; others that have none."""
    nodes = [
        node("LayerNormalization", ["x", "g", "b"], ["l", "mean", "inv"], axis=-1),
        node("MaxPool", ["l"], ["p", "indices"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p", "cw", ""], ["c"]),
        node("Dropout", ["c", "", ""], ["d", ""]),
        node("Split", ["d"], ["s0", "s1"], axis=1),
        node("TopK", ["s0", "k"], ["values", "places"], axis=1),
        node("Clip", ["values", "", "most"], ["y"]),
    ]
    inits = [
        weights("g", 8),
        weights("b", 8),
        weights("cw", 8, 4, 3, 3),
        constant("k", [2]),
        constant("most", 1, np.float32),
    ]
    return model(nodes, [info("x", *IMAGE)], [untyped("y")], inits)


def moments() -> onnx.ModelProto:
    """A layer norm whose mean and deviation are read."""
    nodes = [
        node("LayerNormalization", ["x", "g", "b"], ["l", "mean", "inv"], axis=-1),
        node("Add", ["l", "mean"], ["a"]),
        node("Mul", ["a", "inv"], ["m"]),
        node("MatMul", ["m", "w"], ["y"]),
    ]
    return model(nodes, [info("x", 3, 8)], [info("y", 3, 4)], [weights("g", 8), weights("b", 8), weights("w", 8, 4)])


def names_alike() -> onnx.ModelProto:
    """Names of tensors and nodes that differ in what no identifier has."""
    nodes = [
        node("Relu", ["a.b"], ["a_b"], name="n.1"),
        node("Relu", ["a_b"], ["a/b"], name="n_1"),
        node("Conv", ["a/b", "cw"], ["a-b"], name="n/1"),
        node("Relu", ["a-b"], ["main"], name="main"),
        node("Neg", ["main"], ["lv"], name="lv"),
        node("Relu", ["lv"], ["1"], name="1"),
        node("Add", ["1", "main"], ["1.0"], name="1.0"),
    ]
    outputs = [info(name, 1, 8, 6, 6) for name in ("1", "1.0", "main")]
    return model(nodes, [info("a.b", *IMAGE)], outputs, [weights("cw", 8, 4, 3, 3)])


_BOUNDS = [constant("from", [0]), constant("to", [0]), constant("axes", [1])]
_SLICE = node("Slice", ["x", "from", "to", "axes"], ["e"])
_ABOVE = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["c"])]
_ONE_IMAGE = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "first"], ["n"]), node("Equal", ["n", "one"], ["c"])]

FILES: dict[str, Callable[[], onnx.ModelProto]] = {
    "float16": lambda: half(TensorProto.FLOAT16, keep_io=False),
    "float16 inside": lambda: half(TensorProto.FLOAT16, keep_io=True),
    "bfloat16": lambda: half(TensorProto.BFLOAT16, keep_io=False),
    "bfloat16 inside": lambda: half(TensorProto.BFLOAT16, keep_io=True),
    "float64": lambda: half(TensorProto.DOUBLE, keep_io=False),
    "a mask of float64": masked_double,
    "a scalar": lambda: convolved(node("Mul", ["x", "s"], ["k"]), more=[info("s")]),
    "scalars alone": lambda: model([node("Add", ["a", "b"], ["y"])], [info("a"), info("b")], [info("y")]),
    "an index": lambda: convolved(
        node("Gather", ["x", "i"], ["r"], axis=2), node("Unsqueeze", ["r", "axes"], ["u"]),
        node("Add", ["x", "u"], ["k"]), inits=[constant("axes", [2])], more=[info("i", kind=TensorProto.INT64)],
    ),
    "an empty list": lambda: convolved(
        node("Concat", ["none", "x"], ["k"], axis=1), inits=[constant("none", np.zeros((1, 0, 8, 8)), np.float32)]
    ),
    "an empty slice": lambda: convolved(_SLICE, node("Concat", ["e", "x"], ["k"], axis=1), inits=_BOUNDS),
    "an empty part": lambda: convolved(
        node("Split", ["x", "sizes"], ["a", "b"], axis=1), node("Relu", ["b"], ["r"]),
        node("Concat", ["a", "r"], ["k"], axis=1), inits=[constant("sizes", [4, 0])],
    ),
    "a sum of nothing": lambda: convolved(
        _SLICE, node("ReduceSum", ["e", "axes"], ["s"]), node("Add", ["x", "s"], ["k"]), inits=_BOUNDS
    ),
    "functions": local_functions,
    "a branch": lambda: branch(constant("c", True, bool)),
    "a branch by shape": lambda: branch(None, *_ONE_IMAGE),
    "a loop": lambda: loop(3),
    "a loop that ends": lambda: loop(
        2**62, node("Constant", [], ["last"], value_int=1), node("LessOrEqual", ["i", "last"], ["cout"])
    ),
    "a scan": scan,
    "constants": constant_forms,
    "sparse weights": sparse_weights,
    "unread outputs": unread_outputs,
    "an output twice": lambda: with_outputs(convolved(data="x"), info("y", 1, 8, 8, 8)),
    "weights as an output": lambda: with_outputs(convolved(data="x"), info("cw", 8, 4, 3, 3)),
    "moments": moments,
    "names": names_alike,
}  # fmt: skip
"""Files that run, by what is peculiar to them."""

REFUSED: dict[str, tuple[Callable[[], onnx.ModelProto], str, str]] = {
    "a branch by data": (lambda: branch(None, *_ABOVE), "node:pick", "export the model with the branch"),
    "a loop without end": (lambda: loop(2**62), "node:steps", "the limit is 512: run it on shorter sequences"),
    "a loop by data": (
        lambda: loop(3, node("ReduceSum", ["hout"], ["s"], keepdims=0), node("Cast", ["s"], ["cout"], to=9)),
        "node:steps", "export the model for a fixed number of iterations",
    ),
    "a string": (
        lambda: convolved(node("Constant", [], ["t"], value_string="x", name="text"), data="x"),
        "node:text", "type string",
    ),
    "a part without a name": (
        lambda: convolved(node("Split", ["x"], ["", "k"], axis=1, name="halves")), "node:halves", "without a name",
    ),
}  # fmt: skip
"""Files that are refused: the field, and what the message says."""
