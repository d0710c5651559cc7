import dataclasses
import json

import numpy as np
import pytest

from accel.driver.run_options import SimulateOptions
from accel.driver.run_program import run_program
from accel.errors import InvalidTensors, SimulationError
from accel.program.program_model import Segment
from accel.program_files.program_container import load_program, save_program
from accel.program_files.program_parts import load_parts
from tests.helpers.programs.golden import documents, needs_golden, words
from tests.helpers.programs.program_parts import golden_parts, write_parts
from tests.helpers.programs.streams import small_program

X = np.arange(-32, 32, dtype=np.int8).reshape(4, 16)
BOTH = SimulateOptions()
RUNS = documents("runs/index.json")


@needs_golden
@pytest.mark.parametrize("entry", RUNS, ids=lambda entry: entry["name"])
def test_a_golden_run_is_verified_in_the_cycles_of_the_rtl(entry, tmp_path):
    tokens: dict[str, int] = {}
    case, number = entry["name"].rsplit("_r", 1)
    for before in range(int(number)):
        tokens = run_program(load_parts(golden_parts(f"{case}_r{before}", tmp_path / str(before))), BOTH, None).tokens
    report = run_program(load_parts(golden_parts(entry["name"], tmp_path / "run", tokens)), BOTH, None)
    assert (report.verified, report.cycles, report.races) == (True, entry["rtl_cycles"], [])
    for name, unit in report.units.items():
        waited = sum(cycles for cause, cycles in unit.stalled.items() if cause != "memory")
        assert unit.busy + waited + unit.idle == report.cycles
        account = {category: sum(causes.values()) for category, causes in report.account.units[name].items()}
        assert sum(account.values()) == report.cycles
        assert account.get("busy", 0) + account.get("memory", 0) == unit.busy
        assert account.get("idle", 0) == unit.idle


@needs_golden
def test_a_changed_byte_is_found_with_the_instruction_that_stored_it(tmp_path):
    program = load_parts(golden_parts("conv8x8_16_32_1x1_s2_r0", tmp_path))
    name, expected = next(iter(program.expected.items()))
    clean = run_program(program, BOTH, None)
    wrong = expected.copy()
    wrong[[3, 700]] ^= 0x55
    report = run_program(dataclasses.replace(program, expected={name: wrong}), BOTH, None)
    assert (clean.verified, report.verified, report.mismatch_count) == (True, False, 2)
    first, second = report.mismatches
    assert first.address == program.segments[name].address + 3
    assert (first.got, first.expected) == (int(expected[3]), int(wrong[3]))
    assert second.address - first.address == 697
    stores = {3: None, 700: None}
    for mismatch, at in zip(report.mismatches, stores, strict=True):
        decoded_store = program.words[mismatch.instruction] if mismatch.instruction is not None else None
        stores[at] = decoded_store
        assert decoded_store is None or int(decoded_store[0]) & 7 == 1


@needs_golden
def test_a_store_beyond_all_that_was_listed_is_told(tmp_path):
    program = load_parts(golden_parts("conv8x8_16_32_1x1_s2_r0", tmp_path))
    (at, *_) = np.flatnonzero((program.words[:, 0] & 7 == 1) & (program.words[:, 1] >> 16 & 0xFFFF > 0))
    moved = program.words.copy()
    moved[at, 0] += np.uint64(1 << 40)  # dram_base: 256 KiB further
    report = run_program(dataclasses.replace(program, words=moved), BOTH, None)
    assert report.verified is False
    assert {(w.kind, w.instruction) for w in report.warnings} == {("outside-segments", at)}
    moved[at, 0] |= np.uint64(0xFFFFFFFF << 26)
    for engine in ("both", "timing", "function"):
        with pytest.raises(SimulationError, match=rf"instruction {at} \(store_out\): DRAM byte \d+ is out of range"):
            run_program(dataclasses.replace(program, words=moved), SimulateOptions(engine=engine), None)


@needs_golden
def test_where_nothing_is_expected_results_go_anywhere(tmp_path):
    golden_parts("conv8x8_16_32_1x1_s2_r0", tmp_path)
    document = json.loads((tmp_path / "program.json").read_text())
    (tmp_path / "program.json").write_text(json.dumps(document | {"expected": []}))
    report = run_program(load_parts(tmp_path), BOTH, None)
    assert (report.verified, report.race_count, report.warnings) == (None, 0, [])


@needs_golden
def test_a_stream_without_data_is_timed_and_accused_of_nothing(tmp_path):
    streams = documents("streams.json")
    name = "resnet18_C2"
    program = load_parts(
        write_parts(tmp_path, words("streams.npz")[name], {}, {}, tokens=streams[name]["initial_tokens"])
    )
    for engine in ("timing", "both"):
        report = run_program(program, SimulateOptions(engine=engine), None)
        assert (report.cycles, report.verified, report.races) == (streams[name]["rtl_cycles"], None, [])
        assert report.race_count is None
    assert report.bytes_written == streams[name]["fsim"]["out_store_nbytes"]


def test_a_program_with_what_it_expects_verifies_itself():
    program = small_program()
    right = dataclasses.replace(program, image=program.image | {"x": X}, expected={"y": X.astype(np.float32) + 2})
    report = run_program(right, BOTH, None)
    assert (report.verified, report.mismatch_count) == (True, 0)
    y = X.astype(np.float32) + 2
    y[1, 2] = 7.5
    (mismatch,) = run_program(dataclasses.replace(right, expected={"y": y}), BOTH, None).mismatches
    assert (mismatch.address, mismatch.got, mismatch.expected) == (2048 + 18 * 4, -12.0, 7.5)
    assert mismatch.instruction is None  # a host step wrote it


def test_a_right_result_with_a_race_is_not_verified():
    program = small_program()
    words_ = program.words.copy()
    words_[3, 0] &= ~np.uint64(1 << 5)  # the store tells nobody
    words_[4, 0] &= ~np.uint64(1 << 4)  # and nobody waits for it
    expected = {"y": X.astype(np.float32) + 2}
    racy = dataclasses.replace(program, words=words_, image=program.image | {"x": X}, expected=expected)
    report = run_program(racy, BOTH, None)
    assert (report.verified, report.mismatch_count) == (False, 0)
    race = report.races[0]
    assert (race.first.index, race.first.op, race.second.index, race.second.op) == (3, "store_out", 5, "finish")
    assert (race.memory, race.begin, race.end) == ("dram", 512, 576)


def test_each_engine_gives_what_it_knows():
    program = dataclasses.replace(small_program(), expected={"y": np.zeros((4, 16), np.float32)})
    function = run_program(program, SimulateOptions(engine="function"), None, inputs={"x": X})
    timing = run_program(program, SimulateOptions(engine="timing"), None)
    assert (function.cycles, function.units, function.tokens, function.verified) == (None, None, None, False)
    assert (timing.verified, timing.race_count, timing.mismatches) == (None, None, [])
    assert timing.cycles == run_program(program, BOTH, None, inputs={"x": X}).cycles
    assert timing.seconds == pytest.approx(timing.cycles / 100e6)


def test_inputs_are_given_or_carried_or_drawn(tmp_path):
    program = small_program()

    def y(inputs: dict | None, seed: int = 0) -> np.ndarray:
        run_program(program, SimulateOptions(seed=seed), tmp_path, inputs=inputs)
        return np.load(tmp_path / "outputs.npz")["y"]

    assert np.array_equal(y({"x": X}), X.astype(np.float32) + 2)
    assert np.array_equal(y(None), y(None))
    assert not np.array_equal(y(None), y(None, seed=1))
    with pytest.raises(InvalidTensors, match="there is no input z"):
        y({"z": X})


def test_artifacts_are_left(tmp_path):
    run_program(small_program(), BOTH, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} >= {"report.json", "outputs.npz", "instructions.bin", "trace.npz"}
    assert json.loads((tmp_path / "report.json").read_text())["program"]["launches"] == 2


def test_a_launch_without_finish_is_told():
    program = small_program()
    cut = dataclasses.replace(program.steps[2], count=3)
    report = run_program(dataclasses.replace(program, steps=(*program.steps[:2], cut)), BOTH, None)
    (warning,) = [w for w in report.warnings if w.kind == "never-finishes"]
    assert (warning.launch, warning.instruction) == ("second", 8)


def test_a_saved_program_runs_the_same(tmp_path):
    program = dataclasses.replace(
        small_program(), image=small_program().image | {"x": X}, expected={"y": X.astype(np.float32) + 2}
    )
    save_program(program, tmp_path / "p.zip")
    assert run_program(load_program(tmp_path / "p.zip"), BOTH, None) == run_program(program, BOTH, None)


def test_a_diagnosis_comes_out_as_it_is():
    program = dataclasses.replace(
        small_program(), segments=small_program().segments | {"sum": Segment("sum", 768, (4, 16), "int8")}
    )
    with pytest.raises(SimulationError) as caught:
        run_program(program, BOTH, None)
    assert (caught.value.kind, caught.value.instruction) == ("dram-range", 3)


def test_a_program_that_never_finishes_is_not_verified():
    program = small_program()
    expected = {"sum": (X + 1).astype(np.int8)}
    image = program.image | {"wide": X.astype(np.int32)}
    launch = dataclasses.replace(program.steps[1], inputs=())
    right = dataclasses.replace(program, image=image, expected=expected, inputs=(), outputs=(), steps=(launch,))
    assert run_program(right, BOTH, None).verified is True
    cut = dataclasses.replace(right, steps=(dataclasses.replace(launch, count=5),))
    report = run_program(cut, BOTH, None)
    assert (report.verified, report.mismatch_count, [w.kind for w in report.warnings]) == (False, 0, ["never-finishes"])


def test_padding_bits_of_a_store_are_diagnosed():
    program = small_program()
    program.words[3, 1] |= np.uint64(1 << 48)
    with pytest.raises(SimulationError, match=r"instruction 3 \(store_out\): a store takes no padding") as caught:
        run_program(program, BOTH, None)
    assert (caught.value.kind, caught.value.instruction) == ("padding", 3)
