"""A dry run says what the job does: against the stages that compile, and against a job's report."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from tvm import ir, tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator, preset_names
from accel.driver.dry_run import plan_model
from accel.driver.quantisation_scheme import scheme_of
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import CyclopsError, InvalidModel, InvalidTensors, UnsupportedOperator
from accel.frontend.quantize.quantize_model import ensure_quantised
from accel.lowering.ir import instruction_calls
from accel.lowering.ir.host_runs import LaunchRun, split_main
from accel.lowering.ir.tir_walk import collect
from accel.report.documents.plan_documents import Plan
from examples.conv224 import conv224
from examples.graph import Graph
from examples.networks import build
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.marking import others_all, rest_all, rotated
from tests.helpers.models.build_models import lower
from tests.helpers.models.windowed_attention import windowed_attention

VTA = load_accelerator("vta")
# the other presets of its family have its instructions
DIFFERENT = ["vta", *(name for name in preset_names() if load_accelerator(name).family != VTA.family)]


def small_network() -> onnx.ModelProto:
    """Float32: two convolutions, a sum, a grouped one, a pooling and a dense layer."""
    graph, random = Graph("small"), np.random.default_rng(3)

    def conv(name: str, x: str, shape: tuple[int, ...], **attributes: Any) -> str:
        weight = graph.constant(f"{name}_weight", random.normal(0, 0.2, shape).astype(np.float32))
        return graph.node("Conv", name, [x, weight], pads=[1, 1, 1, 1], **attributes)

    x = graph.node("Relu", "relu", [conv("first", graph.input("x", (1, 3, 8, 8)), (16, 3, 3, 3))])
    x = graph.node("Add", "sum", [x, conv("second", x, (16, 16, 3, 3))])
    x = graph.node("GlobalAveragePool", "pool", [conv("grouped", x, (16, 4, 3, 3), group=4)])
    weight = graph.constant("dense_weight", random.normal(0, 0.2, (16, 10)).astype(np.float32))
    graph.output(graph.node("MatMul", "dense", [graph.node("Flatten", "flat", [x]), weight]), (1, 10))
    return graph.model()


MODELS = {
    "convolution": conv_model(Conv(16, 16, 8, 8)),
    "strided": conv_model(Conv(20, 40, 9, 9, strides=(2, 2))),
    "grouped": conv_model(Conv(16, 16, 8, 8, groups=4)),
    "dense": dense_model(Dense(4, 20, 20)),
    "network": small_network(),
}


def planned(model: onnx.ModelProto, accelerator: Accelerator = VTA, **options: Any) -> Plan:
    return plan_model(model.SerializeToString(), accelerator, **options)


def compiled(model: onnx.ModelProto, accelerator: Accelerator, last: str) -> ir.IRModule:
    """The module as a stage of the job leaves it."""
    scheme = scheme_of(Target(accelerator), Options())
    return lower(ensure_quantised(model, scheme=scheme), accelerator, last)


def called(function: tirx.PrimFunc) -> set[str]:
    calls = [node for node in collect(function.body, tirx.Evaluate) if instruction_calls.is_call(node)]
    return {instruction_calls.parse(call)[0] for call in calls}


@pytest.mark.parametrize(("name", "preset"), [*rotated(list(MODELS)[:-1], DIFFERENT), *rotated(["network"], DIFFERENT)])
def test_the_instructions_are_those_that_the_compiler_injects(name: str, preset: str) -> None:
    accelerator = load_accelerator(preset)
    plan = planned(MODELS[name], accelerator)
    module = compiled(MODELS[name], accelerator, "inject")
    launches = [run for run in split_main(module) if isinstance(run, LaunchRun)]
    made = [called(module[run.call.args[0]]) for run in launches]  # of which some may share a function
    told = [
        {use.instruction for use in launch.instructions if use.role != "load micro-ops"} for launch in plan.launches
    ]
    assert sorted(map(sorted, told)) == sorted(map(sorted, made))
    names = {instruction.name: instruction for instruction in accelerator.instructions}
    for use in (use for launch in plan.launches for use in launch.instructions):
        assert names[use.instruction].pragma == use.pragma


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("strided", "vta"),
        ("strided", "mvin-mvout"),
        pytest.param("network", "vta", marks=pytest.mark.all),
        pytest.param("network", "mvin-mvout", marks=pytest.mark.slow),
    ],
)
def test_the_plan_is_what_the_report_of_the_job_says(name: str, preset: str, tmp_path: Path) -> None:
    accelerator = load_accelerator(preset)
    plan = planned(MODELS[name], accelerator)
    report = run_model(MODELS[name].SerializeToString(), accelerator, Options(trace=False), tmp_path)
    assert [(launch.name, launch.op, launch.nodes, launch.macs) for launch in plan.launches] == [
        (layer.name, layer.op, layer.nodes, layer.macs) for layer in report.layers
    ]
    assert plan.macs == report.macs
    assert plan.end_to_end is not None
    assert report.end_to_end is not None
    assert plan.end_to_end.details == report.end_to_end.details
    assert plan.end_to_end.parts["accelerator"].cycles == plan.estimated_cycles
    assert [(step.name, step.crossing, step.elements) for step in plan.end_to_end.steps] == [
        (step.name, step.crossing, step.elements) for step in report.end_to_end.steps
    ]
    on_host = {node.name: (node.op, node.reason) for node in plan.nodes if node.reason is not None}
    assert on_host == {op.node: (op.op, op.reason) for op in report.host_ops}
    for node in plan.nodes:
        assert (node.where in ("host", "both")) == (node.reason is not None)
        assert (node.where in ("accelerator", "both")) == (node.launch is not None)


@pytest.mark.slow
def test_every_node_of_the_model_is_there_in_its_order_then_what_quantisation_adds() -> None:
    model = small_network()
    plan = planned(model)
    own = [node.name for node in plan.nodes if not node.added]
    assert own == [node.name for node in model.graph.node]
    assert [node.added for node in plan.nodes] == sorted(node.added for node in plan.nodes)
    where = {node.name: node.where for node in plan.nodes}
    assert where["first"] == "both"  # the host quantises the image, and pads it with its zero point
    assert (where["relu"], where["sum"], where["grouped"], where["pool"]) == ("accelerator",) * 4


def test_what_is_folded_away_is_nowhere() -> None:
    plan = planned(MODELS["convolution"])
    assert {node.name: node.where for node in plan.nodes} == {
        "x_dequantized": "nowhere",
        "weight_dequantized": "nowhere",
        "bias_dequantized": "nowhere",
        "conv": "accelerator",
        "conv_quantized": "nowhere",
    }


# of each kind of network one, so that all kinds of launches are in it; those of 224 x 224 take a minute and more
NETWORKS_TIMED = (
    *("attention", "keyword_spotting", "autoencoder", "visual_wake_words", "mobilenet_v2", "efficientnet_b0"),
    *("shufflenet_v2", "resnet18", "resnet8"),
)
# every time: each accelerator with small ones, of which each kind of layer is in one
TIMED = [
    *[("attention", "vta-pynq"), ("keyword_spotting", "gemmini")],
    *[("autoencoder", "output-stationary"), ("resnet8", "output-stationary")],
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "preset"), others_all(product(NETWORKS_TIMED, ("vta-pynq", "gemmini", "output-stationary")), TIMED)
)
def test_the_plan_of_an_example_is_within_a_twentieth_of_the_cycles_of_its_run(
    name: str, preset: str, tmp_path: Path
) -> None:
    accelerator, model = load_accelerator(preset), build(name).SerializeToString()
    plan = plan_model(model, accelerator)
    # trials find tilings of depthwise layers a sixth faster than those that the plan prices lowest on Gemmini
    schedule = "quick" if preset == "gemmini" else "timed"
    options = Options(trace=False, verify_seconds=0, schedule=schedule)
    report = run_model(model, accelerator, options, tmp_path)
    assert plan.estimated_cycles == pytest.approx(report.cycles, rel=0.05)
    assert [launch.name for launch in plan.launches if launch.estimated_cycles is None] == []


@pytest.mark.slow
@pytest.mark.parametrize("preset", rest_all(["vta", "gemmini", "vta-pynq", "output-stationary"], keep=2))
def test_the_plan_of_attention_in_windows_is_within_a_twentieth_of_its_run(preset: str, tmp_path: Path) -> None:
    accelerator, model = load_accelerator(preset), windowed_attention().SerializeToString()
    plan = plan_model(model, accelerator)
    # trials find tilings a fifth faster than those that the plan prices lowest, for products of 8 rows on Gemmini
    schedule = "quick" if preset == "gemmini" else "timed"
    report = run_model(model, accelerator, Options(trace=False, schedule=schedule), tmp_path)
    assert report.verified
    assert {"query", "key", "value", "out", "wide", "narrow"} <= {  # not every machine adds
        node for launch in plan.launches for node in launch.nodes
    }
    assert plan.estimated_cycles == pytest.approx(report.cycles, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("preset", rest_all(["vta", "gemmini", "npu"], keep=1))
def test_the_plan_has_the_cycles_of_launches_that_run_as_one(preset: str, tmp_path: Path) -> None:
    """It would catch a plan that adds up launches by themselves, 8% more than a job of small layers takes."""
    accelerator, model = load_accelerator(preset), build("keyword_spotting").SerializeToString()
    plan = plan_model(model, accelerator)
    report = run_model(model, accelerator, Options(trace=False, verify_seconds=0, schedule="quick"), tmp_path)
    assert [launch.estimated_cycles for launch in plan.launches] == [layer.cycles for layer in report.layers]
    assert sum(layer.joined for layer in report.layers) > 1
    assert plan.end_to_end is not None
    assert report.end_to_end is not None
    assert plan.end_to_end.cycles == report.end_to_end.cycles


def test_tiles_cover_the_layer_and_the_epilogue_is_named() -> None:
    (launch,) = planned(conv224()).launches
    tiling = launch.tiling
    assert tiling.tiles * tiling.out_rows * tiling.out_columns * tiling.out_blocks >= 224 * 224
    assert (tiling.rows, tiling.out_channels, tiling.in_channels) == (1, 16, 16)
    assert launch.operators == ["conv2d", "requantize", "clip"]
    roles = [use.role for use in launch.instructions]
    assert roles == sorted(
        roles, key=["load micro-ops", "load data", "load weights", "clear", "contract", "epilogue", "store"].index
    )
    assert ("contract", "gemm", "accumulate") in [(u.role, u.instruction, u.operation) for u in launch.instructions]
    assert [use.operation for use in launch.instructions if use.role == "store"] == ["narrow"]


@pytest.mark.slow
def test_samples_are_told() -> None:
    model = small_network()
    assert planned(model).quantisation == "random samples"
    given = {"x": np.ones((2, 1, 3, 8, 8), np.float32)}
    assert planned(model, calibration=given).quantisation == "given samples"
    assert planned(MODELS["dense"]).quantisation == "none"
    with pytest.raises(InvalidTensors):
        planned(model, calibration={"y": given["x"]})


@pytest.mark.slow
def test_the_same_again() -> None:
    first, second = (planned(small_network()).model_dump_json() for _ in range(2))
    assert first == second
    assert json.loads(first)["launches"]


def unknown_operator() -> onnx.ModelProto:
    graph = Graph("sequence")
    graph.output(graph.node("Det", "det", [graph.input("x", (3, 3))]), (), TensorProto.FLOAT)
    return graph.model()


@pytest.mark.parametrize(
    ("model", "error"),
    [(b"", InvalidModel), (b"no model", InvalidModel), (unknown_operator().SerializeToString(), UnsupportedOperator)],
)
def test_models_that_cannot_be_planned(model: bytes, error: type[CyclopsError]) -> None:
    with pytest.raises(error):
        plan_model(model, VTA)


def test_launches_of_many_instructions_are_timed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would catch a plan without the cycles of large dense layers, which autotuning does not time."""
    data = MODELS["network"].SerializeToString()
    apart = Options(launches="separate")  # as one they are timed where each was compiled whole
    usual = [launch.estimated_cycles for launch in plan_model(data, VTA, apart).launches]
    monkeypatch.setattr("accel.driver.trials.region_timer.TRIAL_INSTRUCTIONS", 0)
    assert [launch.estimated_cycles for launch in plan_model(data, VTA, apart).launches] == usual
    for stage in ("dry_run", "compile_stages"):  # and no part has as few
        monkeypatch.setattr(f"accel.driver.{stage}._SPARE", 0)
    assert {launch.estimated_cycles for launch in plan_model(data, VTA, apart).launches} == {None}
