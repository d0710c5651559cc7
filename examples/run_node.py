"""Run one ONNX node by itself with onnxruntime."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper

Array = npt.NDArray[Any]


def run_node(node: onnx.NodeProto, opset: int, feeds: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
    """The outputs of ``node`` for each of ``feeds``, which hold all its inputs by name."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype), value.shape)
        for name, value in feeds[0].items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    model = helper.make_model(
        helper.make_graph([node], "node", inputs, outputs), opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [session.run(None, dict(feed)) for feed in feeds]
