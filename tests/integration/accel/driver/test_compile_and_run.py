"""The whole job in this process: artifacts, report, verification, and bad input."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.driver.job_stages import JOB
from accel.driver.run_model import run_model
from accel.driver.run_options import Options, SimulateOptions, StageProgress
from accel.driver.run_program import run_program
from accel.errors import InvalidAccelerator, InvalidModel, InvalidTensors, VerificationError
from accel.frontend.read.model_inspection import inspect_model
from accel.program_files.program_container import load_program
from accel.simulate.engine import simulate
from accel.trace.program_trace import Trace
from accel.verify.input_tensors import checked_inputs, draw_inputs
from accel.verify.output_comparison import check_equal, outputs_by_onnxruntime
from examples.graph import Graph
from examples.resnet8 import resnet8
from examples.single import Conv, conv_model
from tests.integration.accel.lowering.partition.test_residual import block
from tests.reference.host import run_onnx

STAGES = ["import", "partition", "pack", "schedule", "flatten", "inject", "sync", "allocate", "emit"]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[StageProgress]]:
    out = tmp_path_factory.mktemp("job")
    progress: list[StageProgress] = []
    run_model(resnet8().SerializeToString(), load_accelerator("vta"), Options(), out, progress=progress.append)
    return out, progress


def report(out: Path) -> dict:
    return json.loads((out / "report.json").read_text())


def test_the_report_says_it_all(job: tuple[Path, list[StageProgress]]) -> None:
    document = report(job[0])
    assert document["accelerator"] == "vta"
    assert document["verified"] is True
    assert document["cycles"] == sum(layer["cycles"] for layer in document["layers"])
    assert document["macs"]["share"] >= 0.99
    assert document["cycles"] >= document["bound"]["cycles"]
    for layer in document["layers"]:
        assert layer["lower_bound"] > 0
        # a joined one is loaded for while the one before it computes
        assert layer["cycles"] >= layer["compute_bound" if layer["joined"] else "lower_bound"]
        assert 0 <= layer["utilisation"] <= layer["gemm_share"] <= 1
        assert layer["bytes_read"] > layer["bytes_written"] > 0
    assert {op["op"] for op in document["host_ops"]} == {"QuantizeLinear", "DequantizeLinear", "Softmax"}
    assert all(op["reason"].strip() for op in document["host_ops"])
    (quality,) = document["quantisation"]
    assert quality["sqnr_db"] > 20
    assert quality["cosine"] > 0.99
    stages = [stage.name for stage in JOB.stages]
    assert [stage["name"] for stage in document["stages"]] == stages


def test_every_stage_is_dumped(job: tuple[Path, list[StageProgress]]) -> None:
    names = sorted(path.name for path in (job[0] / "tir").glob("*.txt"))
    assert [name[3:-4] for name in names] == ["quantize", *STAGES]
    assert all(path.stat().st_size for path in (job[0] / "tir").rglob("*.txt"))


def test_progress_counts_every_stage(job: tuple[Path, list[StageProgress]]) -> None:
    progress = job[1]
    assert [p.step for p in progress] == list(range(1, len(progress) + 1))
    assert {p.total for p in progress} == {len(progress)}


def test_the_program_file_runs_to_the_same_outputs_and_cycles(job: tuple[Path, list[StageProgress]]) -> None:
    out, _ = job
    program = load_program(out / "program.zip")
    with np.load(out / "inputs.npz") as inputs, np.load(out / "outputs.npz") as outputs:
        simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
        for name, expected in zip(program.outputs, outputs.values(), strict=True):
            np.testing.assert_array_equal(simulation.outputs[name], expected)
    assert simulation.cycles == report(out)["cycles"]
    words = np.fromfile(out / "instructions.bin", dtype="<u8").reshape(-1, 2)
    np.testing.assert_array_equal(words, program.words)
    assert len(Trace.load(out)) == len(words)


def test_outputs_are_near_the_float_model(job: tuple[Path, list[StageProgress]]) -> None:
    out, _ = job
    with np.load(out / "inputs.npz") as inputs, np.load(out / "outputs.npz") as outputs:
        (expected,) = run_onnx(resnet8(), dict(inputs))
        (result,) = outputs.values()
    assert np.argmax(result) == np.argmax(expected)


@pytest.mark.parametrize(("seconds", "cause"), [(0, "as verify_seconds is 0"), (1e-6, "longer than verify_seconds")])
def test_what_is_not_verified_is_said(tmp_path: Path, seconds: float, cause: str) -> None:
    model = conv_model(Conv(16, 16, 8, 8, (3, 3), (1, 1), (1, 1, 1, 1))).SerializeToString()
    result = run_model(model, load_accelerator("vta"), Options(verify_seconds=seconds), tmp_path)
    assert result.verified is None
    assert result.cycles > 0
    (warning,) = result.warnings
    assert (warning.kind, warning.launch, warning.instruction) == ("not-verified", None, None)
    assert cause in warning.detail
    assert [stage.name for stage in result.stages][-2:] == ["verify", "report"]
    program = load_program(tmp_path / "program.zip")
    assert not program.expected
    assert set(np.load(tmp_path / "outputs.npz")) == set(program.outputs)


def test_the_time_to_compile_is_that_of_the_stages_before_simulation(job: tuple[Path, list[StageProgress]]) -> None:
    document = report(job[0])
    names = [stage["name"] for stage in document["stages"]]
    seconds = [stage["seconds"] for stage in document["stages"][: names.index("simulate")]]
    assert document["compile_seconds"] == pytest.approx(sum(seconds), abs=1e-3)


@pytest.mark.slow
def test_a_path_is_as_good_as_the_bytes(tmp_path: Path) -> None:
    data, path = block((1, 16, 8, 8), 3).SerializeToString(), tmp_path / "model.onnx"
    path.write_bytes(data)
    folders = [tmp_path / "path", tmp_path / "bytes"]
    for folder, model in zip(folders, (path, data), strict=True):
        folder.mkdir()
        run_model(model, load_accelerator("vta"), Options(), folder)
    for name in ("program.zip", "model.qdq.onnx", "trace.npz", "outputs.npz"):
        assert len({(folder / name).read_bytes() for folder in folders}) == 1, name
    assert len({tuple(sorted(each.name for each in folder.iterdir())) for folder in folders}) == 1


def test_a_model_without_contractions_is_verified_null(tmp_path: Path) -> None:
    graph = Graph("softmax")
    x = graph.input("x", (1, 10))
    graph.output(graph.node("Softmax", "softmax", [x]), (1, 10))
    result = run_model(graph.model().SerializeToString(), load_accelerator("vta"), Options(), tmp_path)
    assert result.verified is None
    assert result.cycles == 0
    assert [op.node for op in result.host_ops] == ["softmax"]


def test_a_difference_is_named() -> None:
    expected = np.zeros((2, 3), np.int8)
    got = expected.copy()
    got[1, 2] = 7
    with pytest.raises(VerificationError, match=r"1 of 6 elements of y differ; the first is \[1, 2\]: got 7"):
        check_equal({"y": got}, {"y": expected})


def test_negative_zero_is_a_difference() -> None:
    with pytest.raises(VerificationError):
        check_equal({"y": np.float32([-0.0])}, {"y": np.float32([0.0])})


@pytest.mark.parametrize("name", ["other", None])
def test_inputs_must_be_the_models(name: str | None) -> None:
    info = inspect_model(resnet8().SerializeToString())
    inputs = draw_inputs(info.inputs, 0)
    wrong = {name: inputs["image"]} if name else {"image": inputs["image"][0]}
    with pytest.raises(InvalidTensors):
        checked_inputs(info, wrong)


def test_inputs_hold_no_nan() -> None:
    info = inspect_model(resnet8().SerializeToString())
    inputs = draw_inputs(info.inputs, 0)
    inputs["image"][0, 0, 0, 0] = np.nan
    with pytest.raises(InvalidTensors, match="image holds NaN") as caught:
        checked_inputs(info, inputs)
    assert caught.value.field == "inputs.image"


def test_a_model_that_onnxruntime_cannot_run_is_the_users_error() -> None:
    graph = Graph("gather")
    x = graph.input("x", (4,))
    index = graph.constant("index", np.array([9], np.int64))
    graph.output(graph.node("Gather", "gather", [x, index]), (1,))
    with pytest.raises(InvalidModel, match="onnxruntime cannot run the model"):
        outputs_by_onnxruntime(graph.model(), {"x": np.zeros(4, np.float32)}, ["gather"])


@pytest.mark.parametrize(
    ("document", "field"),
    [(b"", "accelerator"), (b"{}", "accelerator.name"), (b"[" * 100_000, "accelerator"), (b"\xff", "accelerator")],
)
def test_documents_that_are_none(document: bytes, field: str) -> None:
    with pytest.raises(InvalidAccelerator) as caught:
        parse_accelerator(document)
    assert caught.value.field == field


def test_an_unknown_accelerator_is_answered_with_the_presets() -> None:
    with pytest.raises(InvalidAccelerator, match="vta-small"):
        load_accelerator("tpu")


@pytest.mark.slow
def test_a_network_quantised_already_is_taken_as_it_is(job: tuple[Path, list[StageProgress]], tmp_path: Path) -> None:
    qdq = (job[0] / "model.qdq.onnx").read_bytes()
    result = run_model(qdq, load_accelerator("vta"), Options(), tmp_path)
    assert result.cycles == report(job[0])["cycles"]
    assert onnx.load_from_string(qdq) == onnx.load(tmp_path / "model.qdq.onnx")


@pytest.mark.slow
def test_the_program_of_a_job_verifies_itself_without_the_model(job: tuple[Path, list[StageProgress]]) -> None:
    program = load_program(job[0] / "program.zip")
    again = run_program(program, SimulateOptions(), None)
    assert (again.verified, again.race_count, again.warnings) == (True, 0, [])
    assert again.cycles == report(job[0])["cycles"]
    assert again.program.host_steps > 1
    info = inspect_model(resnet8().SerializeToString())
    assert program.inputs == tuple(tensor.name for tensor in info.inputs)
    assert program.outputs == tuple(tensor.name for tensor in info.outputs)
    other = run_program(
        program, SimulateOptions(), None, inputs={program.inputs[0]: program.image[program.inputs[0]] * 0}
    )
    assert other.verified is None
