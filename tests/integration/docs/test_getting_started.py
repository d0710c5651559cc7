"""The page for newcomers, followed step by step: the files that it writes, every command, and what it prints.

PyTorch is no requirement of ours. Where it is missing, the two models are written as its exporters write them.
"""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from tests.helpers.transcript import Command, File, follow, prepare, steps

PAGE = (Path(__file__).parents[3] / "docs" / "getting-started.md").read_text(encoding="utf-8")
EXPORT = "export.py"
WEIGHTS = {"w0": (16, 3, 3, 3), "b0": (16,), "w1": (32, 16, 3, 3), "b1": (32,), "w2": (10, 32), "b2": (10,)}


def exported(nodes: Sequence[NodeProto], image: str, result: str, more: Sequence[TensorProto] = ()) -> onnx.ModelProto:
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in WEIGHTS.items()
    ]
    graph = helper.make_graph(
        nodes,
        "main_graph",
        [helper.make_tensor_value_info(image, TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, [1, 10])],
        [*weights, *more],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def convolution(name: str, data: str, layer: int, stride: int, result: str) -> NodeProto:
    return helper.make_node(
        "Conv", [data, f"w{layer}", f"b{layer}"], [result], name=name, strides=[stride] * 2, pads=[1] * 4
    )


def by_dynamo() -> onnx.ModelProto:
    """torch.onnx.export(..., dynamo=True): the pool is a mean, the flattening a reshape to constants."""
    nodes = [
        convolution("node_Conv_21", "input", 0, 1, "c0"),
        helper.make_node("Relu", ["c0"], ["r0"], name="node_relu"),
        convolution("node_Conv_22", "r0", 1, 2, "c1"),
        helper.make_node("Relu", ["c1"], ["r1"], name="node_relu_1"),
        helper.make_node("ReduceMean", ["r1", "axes"], ["mean"], name="node_mean", keepdims=1),
        helper.make_node("Reshape", ["mean", "shape"], ["view"], name="node_view", allowzero=1),
        helper.make_node("Gemm", ["view", "w2", "b2"], ["linear"], name="node_linear", transB=1),
    ]
    axes = numpy_helper.from_array(np.array([-1, -2], np.int64), "axes")
    shape = numpy_helper.from_array(np.array([1, 32], np.int64), "shape")
    return exported(nodes, "input", "linear", [axes, shape])


def by_torchscript() -> onnx.ModelProto:
    """torch.onnx.export(..., dynamo=False): nodes are named after the modules."""
    nodes = [
        convolution("/0/Conv", "input.1", 0, 1, "c0"),
        helper.make_node("Relu", ["c0"], ["r0"], name="/2/Relu"),
        convolution("/3/Conv", "r0", 1, 2, "c1"),
        helper.make_node("Relu", ["c1"], ["r1"], name="/5/Relu"),
        helper.make_node("GlobalAveragePool", ["r1"], ["pool"], name="/6/GlobalAveragePool"),
        helper.make_node("Flatten", ["pool"], ["flat"], name="/7/Flatten", axis=1),
        helper.make_node("Gemm", ["flat", "w2", "b2"], ["25"], name="/8/Gemm", transB=1),
    ]
    return exported(nodes, "input.1", "25")


def export(directory: Path) -> None:
    if importlib.util.find_spec("torch") is not None:
        subprocess.run([sys.executable, EXPORT], cwd=directory, check=True)
        return
    onnx.save(by_dynamo(), directory / "cnn.onnx", save_as_external_data=True, location="cnn.onnx.data")
    onnx.save(by_torchscript(), directory / "cnn-torchscript.onnx")


@pytest.mark.slow
def test_the_page_is_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    todo = list(steps(PAGE))
    assert sum(isinstance(step, Command) for step in todo) >= 10
    for step in todo:
        if isinstance(step, File) and step.name == EXPORT:
            compile(step.text, EXPORT, "exec")
            follow(step, tmp_path)
            export(tmp_path)
            continue
        follow(step, tmp_path)
