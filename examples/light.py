"""The networks inside the onnx package, with seeded weights (see ``weights``) in place of the constant ones.

onnx carries, for its own tests, the graphs of nine networks as they were exported in 2017, of opset 9: most of their
weights are nodes that fill a shape with 0.02. Each is a convolutional network for 1000 classes of 224x224 images.

    python -m examples light_squeezenet OUT.onnx
"""

from collections.abc import Iterable
from pathlib import Path

import onnx
from onnx import TensorProto, helper, numpy_helper, version_converter

from examples.graph import IR_VERSION, OPSET
from examples.weights import draw_weights

NAMES = (
    "light_bvlc_alexnet",
    "light_densenet121",
    "light_inception_v1",
    "light_inception_v2",
    "light_resnet50",
    "light_shufflenet",
    "light_squeezenet",
    "light_vgg19",
    "light_zfnet512",
)
_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def light(name: str, seed: int = 0, *, opset: int = OPSET) -> onnx.ModelProto:
    """The network of the file ``name`` (one of ``NAMES``), converted to ``opset``, its weights drawn.

    Its input is float32 [1, 3, 224, 224]; its output has 1000 elements. Nodes and tensors keep their names; the
    integer constants, shapes all of them, keep their values.

    Raises:
        ValueError: there is no such network.
    """
    if name not in NAMES:
        raise ValueError(f"no network {name!r}; there are {', '.join(NAMES)}")
    model = onnx.load(_FOLDER / f"{name}.onnx")
    if opset != model.opset_import[0].version:
        model = version_converter.convert_version(model, opset)
    model.ir_version = max(IR_VERSION, helper.find_min_ir_version_for(model.opset_import))
    _empty_weights(model.graph)
    draw_weights(model, seed)
    onnx.checker.check_model(model, full_check=True)
    return model


def _empty_weights(graph: onnx.GraphProto) -> None:
    """Turn what stands for weights into placeholders, and leave as inputs only what has no value."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    read = {name for node in nodes for name in node.input}
    kept = [
        _placeholder(tensor.name, tensor.dims) if tensor.data_type == TensorProto.FLOAT else tensor
        for tensor in graph.initializer
        if tensor.name in read
    ]
    kept += [
        _placeholder(node.output[0], numpy_helper.to_array(constants[node.input[0]]))
        for node in graph.node
        if node.op_type == "ConstantOfShape"
    ]
    inputs = [info for info in graph.input if info.name not in constants]
    graph.CopyFrom(helper.make_graph(nodes, graph.name, inputs, list(graph.output), kept))


def _placeholder(name: str, dims: Iterable[int]) -> TensorProto:
    return TensorProto(name=name, dims=dims, data_type=TensorProto.FLOAT)
