"""The quality of each quantised tensor, and the intermediates, against onnxruntime's run of the same file."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.dry_run import plan_model
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import InvalidModel
from accel.frontend.quantize.quantize_model import quantize_model
from accel.report.documents.report_documents import Report
from examples.graph import Graph
from tests.helpers.marking import rest_all
from tests.reference.host import Array

QUICK = {"trace": False, "schedule": "quick", "limits": "some"}


def layers(worst: str = "") -> onnx.ModelProto:
    """Three convolutions with relus; in the weights of ``worst`` one is so large that int8 has nothing of the rest.

    Then they have clips between them, through which no factors of channels come to make up for that.
    """
    graph, random = Graph("layers"), np.random.default_rng(1)
    x = graph.input("x", (1, 16, 8, 8))
    for name in ("first", "second", "third"):
        weight = random.normal(0, 0.12, (16, 16, 3, 3)).astype(np.float32)
        weight[0, 0, 0, 0] = 40 if name == worst else weight[0, 0, 0, 0]
        bias = graph.constant(f"{name}_bias", random.normal(0, 0.1, 16).astype(np.float32))
        x = graph.node("Conv", name, [x, graph.constant(f"{name}_weight", weight), bias], pads=[1] * 4)
        bounds = [graph.constant(f"{name}_{end}", np.float32(at)) for end, at in (("low", -0.01), ("high", 1e3))]
        x = graph.node("Clip", f"/{name}/relu", [x, *bounds]) if worst else graph.node("Relu", f"/{name}/relu", [x])
    graph.output(x, (1, 16, 8, 8))
    return graph.model()


def run(model: onnx.ModelProto, out: Path, preset: str = "vta", **options: object) -> Report:
    chosen = Options(**{**QUICK, **options})
    return run_model(model.SerializeToString(), load_accelerator(preset), chosen, out)


def floats(model: onnx.ModelProto, names: list[str], out: Path) -> list[Array]:
    observed = onnx.ModelProto()
    observed.CopyFrom(model)
    present = {output.name for output in model.graph.output}
    observed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in present)
    session = onnxruntime.InferenceSession(observed.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(names, dict(np.load(out / "inputs.npz")))


def decibels(got: Array, expected: Array) -> float:
    return 10 * np.log10(
        np.square(expected, dtype=np.float64).sum() / np.square(got - expected, dtype=np.float64).sum()
    )


def factors(out: Path) -> dict[str, Array]:
    """What the QDQ file says that each channel of a tensor was multiplied by."""
    nodes = onnx.load(out / "model.qdq.onnx").graph.node
    noted = {node.output[0]: {entry.key: entry.value for entry in node.metadata_props} for node in nodes}
    key = "cyclops.channel_factors"
    return {name: np.array(json.loads(entries[key])) for name, entries in noted.items() if key in entries}


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["vta", "gemmini"])
def test_each_tensor_is_compared_with_the_float_model_and_can_be_had(preset: str, tmp_path: Path) -> None:
    """It would catch integers scaled wrongly, a zero point left out, and tensors that belong to another node."""
    model = layers()
    report = run(model, tmp_path, preset, intermediates=["*"])
    arrays = dict(np.load(tmp_path / "intermediates.npz"))
    names = ["/first/relu", "/second/relu", "/third/relu"]
    assert [tensor.tensor for tensor in report.tensors] == ["x", *names]
    assert [tensor.node for tensor in report.tensors] == ["", *names]
    expected = floats(model, names, tmp_path)
    for tensor, real in zip(report.tensors[1:], expected, strict=True):
        key = tensor.tensor.lstrip("/")
        np.testing.assert_allclose(arrays[f"float/{key}"], real, rtol=1e-4, atol=1e-5)
        assert tensor.sqnr_db == pytest.approx(decibels(arrays[f"ours/{key}"], real), abs=0.05)
        equalised = arrays[f"ours/{key}"] * factors(tmp_path).get(tensor.tensor, np.ones(16)).reshape(-1, 1, 1)
        steps = equalised / tensor.scale + tensor.zero_point
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-3)
        assert -128.1 < steps.min() <= steps.max() < 127.1
    assert [tensor.before_db for tensor in report.tensors[1:]] == [tensor.sqnr_db for tensor in report.tensors[:-1]]
    np.testing.assert_array_equal(arrays["ours/third/relu"], np.load(tmp_path / "outputs.npz")["/third/relu"])
    assert "float/first" in arrays  # within one integer operation: the program has no such tensor
    assert "ours/first" not in arrays


@pytest.mark.slow
@pytest.mark.parametrize("worst", rest_all(["second", "first", "third"]))
def test_the_layer_where_most_is_lost_is_named(worst: str, tmp_path: Path) -> None:
    report = run(layers(worst), tmp_path)
    assert report.most_lost is not None
    assert report.most_lost.node == f"/{worst}/relu"


@pytest.mark.slow
def test_a_quantised_model_is_compared_with_its_float_network(tmp_path: Path) -> None:
    """Its first tensor is the input, of which only the rounding is lost; it would catch a network of other scales."""
    qdq = quantize_model(layers())
    report = run(qdq, tmp_path, intermediates=["/first/relu"])
    assert len(report.tensors) == 4
    assert all(20 < tensor.sqnr_db < 60 for tensor in report.tensors)
    arrays = dict(np.load(tmp_path / "intermediates.npz"))
    assert decibels(arrays["ours/first/relu"], arrays["float/first/relu"]) > 20


def test_a_tensor_that_the_model_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match="no tensor 'nowhere'") as refused:
        run(layers(), tmp_path, intermediates=["first", "nowhere"])
    assert refused.value.field == "options.intermediates[1]"


@pytest.mark.slow
def test_without_a_reference_there_are_the_float_tensors_alone(tmp_path: Path) -> None:
    report = run(layers(), tmp_path, intermediates=["/first/relu"], verify_seconds=0)
    assert report.tensors == []
    assert list(np.load(tmp_path / "intermediates.npz")) == ["float/first/relu"]


@pytest.mark.slow
def test_half_of_the_levels_that_padding_costs_is_said(tmp_path: Path) -> None:
    """It would catch a loss that the machine's loads cause and nobody is told, and one told where there is none."""
    unpadded = Options(zero_points="unpadded")
    (warning,) = run(layers(), tmp_path, zero_points="unpadded").warnings
    assert warning.kind == "half-range"
    assert warning.detail.startswith("of 2 tensors behind a relu")
    assert "/first/relu, /second/relu;" in warning.detail  # nothing pads the last
    planned = plan_model(layers().SerializeToString(), load_accelerator("vta"), unpadded)
    assert [each.detail for each in planned.warnings] == [warning.detail]
    assert not plan_model(layers().SerializeToString(), load_accelerator("vta")).warnings
    assert not plan_model(layers().SerializeToString(), load_accelerator("gemmini")).warnings
