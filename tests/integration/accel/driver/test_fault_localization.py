"""Faults of ours: a compiled program that is wrong is an internal error, whatever else fails on the way to say so."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import CyclopsError, Diagnosis, InternalError, SimulationError, UnsupportedOperator, VerificationError
from accel.isa.decode import Decoded, decode
from accel.lowering.codegen.program_linking import emit
from accel.program.program_model import Program
from examples.single import Conv, conv_model
from tests.reference.encode import encode

VTA = load_accelerator("vta")
MODEL = conv_model(Conv(16, 16, 8, 8, relu=True)).SerializeToString()
Change = Callable[[Decoded, Accelerator], None]


def forget_tokens(decoded: Decoded, accelerator: Accelerator) -> None:
    """The compute unit waits for no load."""
    unit = np.array([accelerator.instructions[kind].unit for kind in decoded.kind])
    decoded.columns["push_next"][unit == "load"] = 0
    decoded.columns["pop_prev"][unit == "compute"] = 0


def wait_for_ever(decoded: Decoded, accelerator: Accelerator) -> None:
    """Nobody sends the tokens that all wait for."""
    decoded.columns["push_next"][:] = 0
    decoded.columns["push_prev"][:] = 0


def shift_more(decoded: Decoded, accelerator: Accelerator) -> None:
    """Results lose a bit more."""
    shifts = (decoded.columns["alu_opcode"] == 3) & (decoded.columns["use_imm"] == 1)
    alu = np.zeros(len(decoded.kind), bool)
    alu[decoded.rows(accelerator.instruction("alu"))] = True
    decoded.columns["imm"][alu & shifts] += 1


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Callable[[Change], None]:
    """Makes the compiler spoil its programs."""

    def spoil(change: Change) -> None:
        def spoilt(module: Any, accelerator: Accelerator, *linking: Any, **places: int) -> Program:
            program = emit(module, accelerator, *linking, **places)
            decoded = decode(accelerator, program.words)
            change(decoded, accelerator)
            return dataclasses.replace(program, words=encode(decoded))

        monkeypatch.setattr("accel.driver.compile_stages.emit", spoilt)

    return spoil


def fault(out: Path, **options: float) -> InternalError:
    with pytest.raises(InternalError) as caught:
        run_model(MODEL, VTA, Options(**options), out)
    assert not isinstance(caught.value, CyclopsError)
    assert (out / "program.zip").is_file()
    return caught.value


def test_races_of_outputs_that_are_equal_are_luck(compiler: Callable[[Change], None], tmp_path: Path) -> None:
    compiler(forget_tokens)
    error = fault(tmp_path)
    assert error.detail.startswith("the outputs are right by luck: they depend on how fast the units are: instruct")
    assert error.field.startswith("instruction:")


def test_of_outputs_that_were_not_compared_nothing_is_claimed(
    compiler: Callable[[Change], None], tmp_path: Path
) -> None:
    compiler(forget_tokens)
    error = fault(tmp_path, verify_seconds=0)
    assert error.detail.startswith("the outputs were not compared, and depend on how fast the units are: instruct")
    assert "right" not in error.detail


def test_a_difference_says_where_it_began(compiler: Callable[[Change], None], tmp_path: Path) -> None:
    compiler(shift_more)
    error = fault(tmp_path)
    assert isinstance(error, VerificationError)
    assert "elements of y differ" in error.detail
    assert "launch conv is the first to go wrong" in error.detail


def test_a_difference_is_told_where_locating_it_fails(
    compiler: Callable[[Change], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("lv7")

    monkeypatch.setattr("accel.driver.job_stages.locate_fault", broken)
    compiler(shift_more)
    error = fault(tmp_path)
    assert isinstance(error, VerificationError)
    assert "elements of y differ" in error.detail
    assert "where it began could not be located: KeyError: 'lv7'" in error.detail
    assert error.field == "y"


def test_a_compiled_program_that_cannot_end_is_no_fault_of_the_input(
    compiler: Callable[[Change], None], tmp_path: Path
) -> None:
    compiler(wait_for_ever)
    error = fault(tmp_path)
    assert error.kind == "deadlock"
    assert error.detail.startswith("the compiled program cannot run to its end: ")


@pytest.mark.parametrize("kind", ["cost", "work-limit"])
def test_what_a_document_or_a_model_asks_too_much_is_not_ours(
    kind: Diagnosis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise SimulationError("its cycles would be -1", kind=kind)

    monkeypatch.setattr("accel.driver.job_stages.simulate", refused)
    with pytest.raises(SimulationError) as caught:
        run_model(MODEL, VTA, Options(), tmp_path)
    assert caught.value.kind == kind


def test_quality_that_onnxruntime_cannot_measure_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_model: onnx.ModelProto) -> None:
        raise ValueError(why)

    why = "Could not find an implementation"
    monkeypatch.setattr("accel.verify.output_comparison.session", refused)
    model = conv_model(Conv(16, 16, 8, 8))
    report = run_model(model.SerializeToString(), VTA, Options(), tmp_path)
    assert report.verified is True
    assert report.quantisation == []
    (warning,) = report.warnings
    assert warning.kind == "no-quality"
    assert warning.detail.startswith("the quality of the outputs is not known: onnxruntime cannot run the model: ")
    assert why in warning.detail


@pytest.mark.parametrize(
    ("op", "constants", "why"),
    [
        ("Trilu", {}, "Could not find an implementation for Trilu"),
        ("Gather", {"index": np.array([99])}, "index 99 lies outside the axis, which has 1 elements"),
    ],
)
def test_a_node_that_onnxruntime_cannot_run_is_refused_by_name(
    op: str, constants: dict[str, np.ndarray], why: str, tmp_path: Path
) -> None:
    model = conv_model(Conv(16, 16, 8, 8))
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    model.graph.node.append(onnx.helper.make_node(op, ["x", *constants], ["z"], name="z"))
    model.graph.output.append(onnx.helper.make_tensor_value_info("z", onnx.TensorProto.INT8, (1, 16, 8, 8)))
    with pytest.raises(UnsupportedOperator, match=why) as caught:
        run_model(model.SerializeToString(), VTA, Options(), tmp_path)
    assert caught.value.field == "node:z"
