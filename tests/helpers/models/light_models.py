"""The networks that the onnx package carries without weights, with random ones."""

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

_FOLDER = Path(onnx.__file__).parent / "backend/test/data/light"
LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)


def light_model(name: str, seed: int = 0) -> onnx.ModelProto:
    """The network ``name``, its ``ConstantOfShape`` nodes replaced by initializers that keep the signal's size.

    The last node is left out if it is a Softmax, which would hide most differences. In the file's IR version, 3,
    initializers are inputs too.
    """
    model = onnx.load(_FOLDER / f"light_{name}.onnx")
    graph, random = model.graph, np.random.default_rng(seed)
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    variances = {node.input[4] for node in graph.node if node.op_type == "BatchNormalization"}
    made = {node.output[0]: shapes[node.input[0]] for node in graph.node if node.op_type == "ConstantOfShape"}
    used = {node.input[0] for node in graph.node if node.op_type == "ConstantOfShape"}
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    if nodes[-1].op_type == "Softmax":
        graph.output[0].name = nodes.pop().input[0]
    weights = [_weight(name, tuple(shape), name in variances, random) for name, shape in made.items()]
    kept = [tensor for tensor in graph.initializer if tensor.name not in used]
    inputs = [info for info in graph.input if info.name not in used]
    inputs += [onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in weights]
    lighter = onnx.helper.make_graph(nodes, graph.name, inputs, graph.output, [*kept, *weights])
    return onnx.helper.make_model(lighter, opset_imports=model.opset_import, ir_version=model.ir_version)


def _weight(name: str, shape: tuple[int, ...], variance: bool, random: np.random.Generator) -> onnx.TensorProto:
    fan = int(np.prod(shape[1:]))
    if variance:
        values = 1 + 0.1 * random.random(shape, np.float32)
    else:
        values = random.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / fan) if len(shape) > 1 else 0.1)
    return numpy_helper.from_array(values.astype(np.float32), name)
