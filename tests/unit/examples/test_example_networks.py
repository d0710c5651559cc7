"""The networks are those of the literature: their multiply-accumulates, parameters and shapes; and they are lively."""

import math
from dataclasses import dataclass

import numpy as np
import onnx
import pytest

from accel.frontend.read.model_inspection import inspect_model
from examples.fold import fold_batch_norms
from examples.networks import build
from tests.reference.host import draw_inputs, run_onnx

IMAGES = ((1, 3, 224, 224), (1, 1000))
SLOW = {"resnet34", "resnet50", "efficientnet_b0", "shufflenet_v2"} | {
    f"light_{name}" for name in ("bvlc_alexnet", "densenet121", "inception_v2", "resnet50", "vgg19", "zfnet512")
}
# whose parts are those of others here
ALIKE = {"resnet18", "mobilenet_v1", "light_inception_v1"} | (SLOW - {"resnet50"})


@dataclass(frozen=True)
class Published:
    """Multiply-accumulates and parameters, where we know a figure; Keras counts the statistics of batch norms too."""

    macs: float | None = None
    parameters: int | None = None
    shapes: tuple[tuple[int, ...], tuple[int, ...]] = IMAGES
    statistics: bool = False


PUBLISHED = {
    # MLPerf Tiny (Banbury et al. 2021); parameters as Keras prints them for the reference models
    "autoencoder": Published(0.264e6, 269_992, ((1, 640), (1, 640)), statistics=True),
    "keyword_spotting": Published(2.66e6, 24_908, ((1, 1, 49, 10), (1, 12)), statistics=True),
    "resnet8": Published(12.5e6, 78_666, ((1, 3, 32, 32), (1, 10)), statistics=True),
    "visual_wake_words": Published(7.49e6, 221_794, ((1, 3, 96, 96), (1, 2)), statistics=True),
    # Howard et al. 2017, and Keras' count; the others as torchvision states them
    "mobilenet_v1": Published(0.569e9, 4_253_864, statistics=True),
    "mobilenet_v2": Published(0.301e9, 3_504_872),
    "mobilenet_v3": Published(0.217e9, 5_483_032),
    "efficientnet_b0": Published(0.386e9, 5_288_548),
    "shufflenet_v2": Published(0.145e9, 2_278_604),
    "resnet18": Published(1.814e9, 11_689_512),
    "resnet34": Published(3.664e9, 21_797_672),
    "resnet50": Published(4.089e9, 25_557_032),
    # the onnx package says nothing; these are the figures of the networks by these names
    "light_bvlc_alexnet": Published(parameters=60_965_224),
    "light_densenet121": Published(2.834e9, shapes=(IMAGES[0], (1, 1000, 1, 1))),
    "light_inception_v1": Published(parameters=6_998_552),
    "light_inception_v2": Published(2.02e9),
    "light_resnet50": Published(4.089e9, 25_557_032),
    "light_shufflenet": Published(),
    "light_squeezenet": Published(0.349e9, 1_235_496, (IMAGES[0], (1, 1000, 1, 1))),
    "light_vgg19": Published(19.632e9, 143_667_240),
    "light_zfnet512": Published(),
}


@dataclass(frozen=True)
class Case:
    """A network with its batch norms as nodes, and what is published of it."""

    name: str
    model: onnx.ModelProto
    published: Published


def marks(name: str) -> list[pytest.MarkDecorator]:
    return [*[pytest.mark.slow] * (name in SLOW), *[pytest.mark.all] * (name in ALIKE)]


@pytest.fixture(scope="module", params=[pytest.param(name, marks=marks(name)) for name in PUBLISHED])
def case(request: pytest.FixtureRequest) -> Case:
    name = request.param
    return Case(name, build(name, batch_norm=None if name.startswith("light") else True), PUBLISHED[name])


def parameters(model: onnx.ModelProto, *, statistics: bool) -> int:
    """Elements of the constants that layers read."""
    sizes = {tensor.name: math.prod(tensor.dims) for tensor in model.graph.initializer}
    roots = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type in ("Reshape", "Unsqueeze")}
    total = 0
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm", "MatMul", "Add", "BatchNormalization"):
            read = node.input[1:3] if node.op_type == "BatchNormalization" and not statistics else node.input[1:]
            total += sum(sizes.get(roots.get(name, name), 0) for name in read)
    return total


def outputs(model: onnx.ModelProto, seeds: range) -> np.ndarray:
    """The outputs, one row for each seed; the logarithms of probabilities."""
    rows = np.stack([run_onnx(model, draw_inputs(model, seed))[0].ravel() for seed in seeds])
    return np.log(rows) if any(node.op_type == "Softmax" for node in model.graph.node) else rows


def test_network_is_the_published_one(case: Case) -> None:
    info = inspect_model(case.model.SerializeToString())
    assert (info.inputs[0].shape, info.outputs[0].shape) == case.published.shapes
    assert (len(info.inputs), len(info.outputs), info.opset) == (1, 1, 17)
    if case.published.macs is not None:
        assert info.macs == pytest.approx(case.published.macs, rel=0.02)
    if case.published.parameters is not None:
        assert parameters(case.model, statistics=case.published.statistics) == case.published.parameters


def test_model_is_valid_and_its_names_are_unique(case: Case) -> None:
    onnx.checker.check_model(case.model, full_check=True)
    names = [node.name for node in case.model.graph.node if node.name]
    assert len(set(names)) == len(names)
    constants = [tensor.name for tensor in case.model.graph.initializer]
    assert len(set(constants)) == len(constants)


@pytest.mark.slow
def test_outputs_are_lively(case: Case) -> None:
    rows = outputs(case.model, range(3))
    assert np.isfinite(rows).all()
    assert rows.std(1).mean() > 0.02, "the classes are alike"
    assert rows.std(0).mean() > 0.02, "the inputs do not matter"


def test_folding_batch_norms_changes_no_result(case: Case) -> None:
    folded = fold_batch_norms(case.model)
    operators = {node.op_type for node in folded.graph.node}
    if case.name != "light_densenet121":  # most of whose batch norms come after a Concat or a pool
        assert "BatchNormalization" not in operators
    np.testing.assert_allclose(outputs(folded, range(1)), outputs(case.model, range(1)), rtol=1e-3, atol=1e-3)
