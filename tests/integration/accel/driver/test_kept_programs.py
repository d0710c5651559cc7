"""A document that differs in time alone gets the program of an earlier job, and all else as if there had been none."""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator, preset_names
from accel.driver import kept_programs, region_choice
from accel.driver.kept_programs import KeptProgram
from accel.driver.region_choice import planned_for
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.isa.family_registry import family_of
from accel.program_files.open_program import open_program
from accel.simulate.engine import simulate
from accel.util.content_cache import FolderCache
from examples.networks import build
from tests.helpers.marking import rest_all, rest_slow
from tests.integration.accel.lowering.partition.test_residual import block

MODEL = block((1, 32, 10, 10), 3).SerializeToString()
VTA = load_accelerator("vta")
_FOUND = "are those of an earlier job"


def changed(accelerator: Accelerator, change: Callable[[dict[str, Any]], object]) -> Accelerator:
    document = json.loads(accelerator.model_dump_json())
    change(document)
    return parse_accelerator({**document, "name": "retimed"})


def slower(accelerator: Accelerator) -> Accelerator:
    return changed(accelerator, lambda document: document["dram"].update(read_latency=23))


def narrow(accelerator: Accelerator) -> Accelerator:
    """Everything of the DRAM takes long."""
    return changed(accelerator, lambda document: document["dram"].update(bus_bytes=4, read_latency=300))


def free(accelerator: Accelerator) -> Accelerator:
    """Nothing of the DRAM takes long, and where costs are the document's they are others."""

    def change(document: dict[str, Any]) -> None:
        document["dram"].update(bus_bytes=128, read_latency=0)
        document["clock_mhz"] = 333.0
        for instruction in document["instructions"] if document["family"] == "explicit" else ():
            if instruction.get("cycles"):
                instruction["cycles"] = f"3 * ({instruction['cycles']})"

    return changed(accelerator, change)


def artifacts(
    model: bytes, accelerator: Accelerator, out: Path, cache: Path | None, options: Options | None = None
) -> dict[str, Any]:
    """Bytes of all files by name; the report without seconds, and without what it says that a cache had."""
    out.mkdir()
    run_model(model, accelerator, options or Options(), out, cache=None if cache is None else FolderCache(cache))
    found: dict[str, Any] = {
        path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()
    }
    report = json.loads(found["report.json"])
    del report["compile_seconds"]
    report.pop("verification_kept", None)
    report["stages"] = [stage["name"] for stage in report["stages"]]
    report["functions"] = [function["name"] for function in report["functions"]]
    return found | {"report.json": report}


@pytest.mark.all
@pytest.mark.parametrize(
    "name", ["vta", "gemmini", "output-stationary", "vector", "mvin-mvout", "gemmini-lean", "vta-8"]
)
def test_all_that_a_retimed_job_leaves_is_as_if_nothing_were_kept(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    accelerator = load_accelerator(name)
    programs = _check_retimings(build("resnet8").SerializeToString(), accelerator, tmp_path, caplog)
    if accelerator.family != "gemmini":  # whose tilings of this model are the same at any timing
        assert len(programs) > 1, "no timing changed a tiling: the choice was not tried"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vta", "gemmini", "output-stationary"])
def test_documents_of_each_family_are_retimed(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What of a document is time alone is another matter in each."""
    _check_retimings(MODEL, load_accelerator(name), tmp_path, caplog)


def _check_retimings(
    model: bytes, accelerator: Accelerator, folder: Path, caplog: pytest.LogCaptureFixture
) -> set[bytes]:
    """The programs that the timings lead to."""
    caplog.set_level(logging.INFO)
    first = artifacts(model, accelerator, folder / "first", folder / "cache")
    assert _FOUND not in caplog.text
    programs = {first["instructions.bin"]}
    for number, retime in enumerate((slower, narrow, free)):
        other = retime(accelerator)
        plain = artifacts(model, other, folder / f"plain{number}", None)
        programs.add(plain["instructions.bin"])
        assert artifacts(model, other, folder / f"kept{number}", folder / "cache") == plain
        caplog.clear()
        assert artifacts(model, other, folder / f"again{number}", folder / "cache") == plain
        assert _FOUND in caplog.text  # the same document again at least
    return programs


def test_what_is_kept_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A job that differs in time alone imports and compiles nothing, and says so."""
    caplog.set_level(logging.INFO)
    artifacts(MODEL, VTA, tmp_path / "first", tmp_path / "cache")
    assert _FOUND not in caplog.text
    artifacts(MODEL, slower(VTA), tmp_path / "second", tmp_path / "cache")
    assert _FOUND in caplog.text


@pytest.mark.parametrize("name", rest_slow(["gemmini", "vta", "npu"]))
def test_near_latencies_have_one_program_without_a_choice(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Catches cycles of the latency that was planned for, and a job that chooses, or compiles, what is known."""
    preset = load_accelerator(name)
    usual = preset.dram.read_latency

    def of(latency: int) -> Accelerator:
        def change(document: dict[str, Any]) -> None:
            document["dram"].update(read_latency=latency)
            if name == "gemmini":
                document["parameters"].update(memory_latency=latency)

        return changed(preset, change)

    first = artifacts(MODEL, of(usual), tmp_path / "first", tmp_path / "cache")
    plain = artifacts(MODEL, of(usual + 1), tmp_path / "plain", None)
    monkeypatch.setattr(region_choice, "choose", lambda *_: pytest.fail("it was chosen already"))
    caplog.set_level(logging.INFO)
    assert artifacts(MODEL, of(usual + 1), tmp_path / "second", tmp_path / "cache") == plain
    assert _FOUND in caplog.text
    assert plain["instructions.bin"] == first["instructions.bin"]
    reports = [found["report.json"] for found in (first, plain)]
    assert [report.get("planned_read_latency") for report in reports] == [None, usual]
    assert reports[1]["cycles"] > reports[0]["cycles"]


def test_what_is_planned_for_is_a_rounded_latency() -> None:
    """Catches programs of presets that are not for their own latency, and steps that are wider than a tenth."""
    assert all(planned_for(each, Options()) == each for each in map(load_accelerator, preset_names()))
    own = load_accelerator("gemmini").model_copy(update={"parameters": {"memory_latency": 1234}})
    for latency in (0, 1, 9, 10, 11, 19, 23, 49, 50, 99, 101, 1949, 99_999, 100_000):
        given = own.model_copy(update={"dram": own.dram.model_copy(update={"read_latency": latency})})
        planned = planned_for(given, Options())
        assert abs(planned.dram.read_latency - latency) <= latency / 10
        assert planned.parameters["memory_latency"] == 1200
        assert planned_for(planned, Options()) == planned
        for exactly in (Options(schedule="timed"), Options(placement="fastest")):
            assert planned_for(given, exactly) == given


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", rest_all([Options(seed=1), Options(host_nodes=("add",)), Options(verify_seconds=0)])
)
def test_other_options_are_another_program(options: Options, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    artifacts(MODEL, VTA, tmp_path / "first", tmp_path / "cache")
    plain = artifacts(MODEL, VTA, tmp_path / "plain", None, options)
    assert artifacts(MODEL, VTA, tmp_path / "second", tmp_path / "cache", options) == plain
    assert _FOUND not in caplog.text


@pytest.mark.slow
def test_another_title_is_another_program(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is in the reasons of what the host does."""
    caplog.set_level(logging.INFO)
    titled = VTA.model_copy(update={"title": "Another machine"})
    artifacts(MODEL, VTA, tmp_path / "first", tmp_path / "cache")
    plain = artifacts(MODEL, titled, tmp_path / "plain", None)
    assert artifacts(MODEL, titled, tmp_path / "second", tmp_path / "cache") == plain


@pytest.mark.slow
def test_outputs_that_are_not_the_kept_ones_are_not_verified_by_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The job is done from its beginning: the program is verified by a reference of its own.

    So it is wherever the program runs again, as its verification was on a machine of other parameters.
    """
    artifacts(MODEL, VTA, tmp_path / "first", tmp_path / "cache")
    plain = artifacts(MODEL, slower(VTA), tmp_path / "plain", None)
    find = region_choice.find_program

    def other(job: Any) -> KeptProgram | None:
        kept = find(job)
        assert kept is not None
        expected = {name: np.bitwise_xor(array, 1) for name, array in kept.program.expected.items()}
        return replace(kept, program=replace(kept.program, expected=expected), verified=False)

    monkeypatch.setattr("accel.driver.run_model.find_program", other)
    assert artifacts(MODEL, slower(VTA), tmp_path / "second", tmp_path / "cache") == plain
    assert plain["report.json"]["verified"] is True
    assert "compiled again" in caplog.text


@pytest.mark.slow
def test_a_verification_is_kept_for_other_times_alone(tmp_path: Path) -> None:
    """Catches a report that says nothing of it, and results believed of a machine that may compute others."""

    def of(accelerator: Accelerator, name: str) -> Any:
        (tmp_path / name).mkdir()
        run_model(MODEL, accelerator, Options(), tmp_path / name, cache=FolderCache(tmp_path / "cache"))
        return json.loads((tmp_path / name / "report.json").read_bytes()).get("verification_kept", False)

    stale = changed(VTA, lambda document: document["parameters"].update(alu_stale_cycles=2))
    assert VTA.parameters != stale.parameters
    found = {name: of(accelerator, name) for name, accelerator in (("first", VTA), ("slow", slower(VTA)))}
    assert found == {"first": False, "slow": True}
    assert not of(stale, "stale")


def test_what_is_verified_is_a_program_on_a_machine() -> None:
    """Catches a program, or a parameter of the family, that another one's verification is believed of."""
    known = kept_programs.verified_digest(b"program", VTA)
    assert known == kept_programs.verified_digest(b"program", narrow(VTA))
    assert known == kept_programs.verified_digest(b"program", free(VTA))
    gemmini, relu = load_accelerator("gemmini"), {"relu_before_scale": True}
    others = [
        kept_programs.verified_digest(b"Program", VTA),
        kept_programs.verified_digest(b"program", gemmini),
        kept_programs.verified_digest(b"program", gemmini.model_copy(update={"parameters": gemmini.parameters | relu})),
    ]
    assert len({known, *others}) == 1 + len(others)
    late = gemmini.model_copy(update={"parameters": gemmini.parameters | {"memory_latency": 77}})
    assert kept_programs.verified_digest(b"program", late) == kept_programs.verified_digest(b"program", gemmini)


@pytest.mark.parametrize("name", ["vta", "gemmini", "gemmini-rocket"])
def test_what_is_time_alone_is_not_read_by_what_computes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a parameter whose change is believed to leave results and races as they are, and does not."""
    accelerator = load_accelerator(name)
    run_model(MODEL, accelerator, Options(trace=False), tmp_path)
    program = open_program(tmp_path / "program.zip")
    parameters = family_of(accelerator).parameters
    read, get = set[str](), parameters.__getattribute__

    def noted(self: Any, field: str) -> Any:
        read.add(field)
        return get(self, field)

    monkeypatch.setattr(parameters, "__getattribute__", noted)
    simulate(program, {}, timing=False)
    assert read & set(parameters.model_fields), "nothing was read: the test sees nothing"
    assert set(parameters.model_fields) >= parameters.TIMES
    assert not read & parameters.TIMES


@pytest.mark.parametrize("cut", rest_slow([100, 0, 30_000]))
def test_a_damaged_entry_is_none(cut: int, tmp_path: Path) -> None:
    artifacts(MODEL, VTA, tmp_path / "first", tmp_path / "cache")
    plain = artifacts(MODEL, slower(VTA), tmp_path / "plain", None)
    for path in (tmp_path / "cache").iterdir():
        data = path.read_bytes()
        path.write_bytes(data[:cut] + bytes([data[cut] ^ 1]) + data[cut + 1 :] if cut < len(data) else data[:-1])
    assert artifacts(MODEL, slower(VTA), tmp_path / "second", tmp_path / "cache") == plain
