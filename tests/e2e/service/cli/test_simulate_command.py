"""`cyclops simulate`, as a user calls it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from accel.catalog.load_accelerator import load_accelerator
from service.cli.commands import app
from tests.helpers.html_pages import read_page
from tests.helpers.programs.golden import documents, needs_golden
from tests.helpers.programs.hand_programs import addition, instructions, recorded, words, written, zipped

ROOT = Path(__file__).parents[4]


def simulate(*arguments: object, columns: int = 120) -> Any:
    """The command in this process, which spares two seconds of imports."""
    done = CliRunner().invoke(app, ["simulate", *map(str, arguments)], env={"COLUMNS": str(columns)})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.stderr
    return done


def simulate_alone(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service.cli", "simulate", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return written(addition(), tmp_path / "program")


def test_a_directory_of_parts_as_json(program: Path, tmp_path: Path) -> None:
    done = simulate(program, "--json", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["verified"] is True
    assert report["cycles"] > 0
    assert report["mismatches"] == report["races"] == []
    assert report["bytes_read"] > 256
    assert report["bytes_written"] == 64
    assert report["units"]["compute"]["busy"] > 0
    assert {p.name for p in (tmp_path / "out").iterdir()} >= {"report.json", "outputs.npz", "trace.npz"}
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == report


def test_a_table(program: Path) -> None:
    done = simulate(program)
    assert done.exit_code == 0, done.stderr
    for said in ("vta", "cycles", "compute", "busy", "waited for", "bytes read", "verified"):
        assert said in done.stdout


@pytest.mark.parametrize("engine", ["both", "function"])
def test_a_page_of_its_own(program: Path, tmp_path: Path, engine: str) -> None:
    html = tmp_path / "add one.html"
    html.write_text("what was there before")
    done = simulate(program, "--engine", engine, "--html", html)
    assert done.exit_code == 0, done.stderr
    assert str(html) in done.stdout
    page = read_page(html.read_text(), alone=True)
    assert page.faults == []
    assert ("timeline" in page.ids) is (engine != "function")
    assert {path.name for path in tmp_path.iterdir()} == {"program", html.name}


def test_a_page_that_cannot_be_written(program: Path, tmp_path: Path) -> None:
    """Catches an answer that is lost because of its page, and files that are left of a page that was not made."""
    for html in (tmp_path, tmp_path / "none" / "x.html", Path("/"), Path()):
        done = simulate(program, "--html", html)
        assert done.exit_code == 2
        assert "[html]" in done.stderr
    kept = tmp_path / "kept.html"
    kept.write_text("what was there before")
    (program / "program.json").write_text("{")
    assert simulate(program, "--html", kept).exit_code == 2
    assert kept.read_text() == "what was there before"
    assert {path.name for path in tmp_path.iterdir()} == {"program", "kept.html"}


def test_a_zip_with_wrong_expectations(tmp_path: Path) -> None:
    parts = addition()
    path = tmp_path / "parts.zip"
    path.write_bytes(zipped(parts | {"y.bin": bytes(64)}))
    done = simulate(path, "--json")
    assert done.exit_code == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["verified"] is False
    assert report["mismatch_count"] == 64
    first = report["mismatches"][0]
    assert (first["address"], first["got"], first["expected"], first["instruction"]) == (8192, 1, 0, 3)
    plain = simulate(path)
    assert plain.exit_code == 1
    assert "NOT verified" in plain.stdout


@pytest.mark.parametrize("expected", [True, False])
def test_a_race(tmp_path: Path, *, expected: bool) -> None:
    parts = addition(tokens=False, **({} if expected else {"expected": []}))
    done = simulate(written(parts, tmp_path / "program"), "--json")
    assert done.exit_code == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["verified"] is (False if expected else None)
    assert report["races"]
    race = report["races"][0]
    assert {race["first"]["index"], race["second"]["index"]} <= set(range(6))


def test_nothing_expected(tmp_path: Path) -> None:
    done = simulate(written(addition(expected=[]), tmp_path / "program"), "--json", "--engine", "function")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["verified"], report["cycles"], report["units"]) == (None, None, None)


def test_timing_alone_of_a_stream_without_data(tmp_path: Path) -> None:
    parts = addition(dram=[], expected=[])
    bare = {name: parts[name] for name in ("program.json", "instructions.bin")}
    done = simulate(written(bare, tmp_path / "program"), "--json", "--engine", "timing")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["cycles"] == json.loads(simulate(written(addition(), tmp_path / "whole"), "--json").stdout)["cycles"]


def test_another_accelerator(program: Path, tmp_path: Path) -> None:
    document = load_accelerator("vta").model_copy(update={"name": "slow"})
    slow = document.model_dump(mode="json")
    slow["dram"]["read_latency"] += 100
    path = tmp_path / "slow.json"
    path.write_text(json.dumps(slow))
    own, other = (json.loads(simulate(program, "--json", *more).stdout) for more in ([], ["--accelerator", path]))
    assert other["accelerator"] == "slow"
    assert other["verified"] is True
    assert other["cycles"] >= own["cycles"] + 100


def test_the_original_configuration(program: Path, tmp_path: Path) -> None:
    keys = {"TARGET": "sim", "HW_VER": "0.0.2"}
    logs = {"INP_WIDTH": 3, "WGT_WIDTH": 3, "ACC_WIDTH": 5, "BATCH": 0, "BLOCK": 4}
    buffers = {"UOP_BUFF_SIZE": 15, "INP_BUFF_SIZE": 15, "WGT_BUFF_SIZE": 18, "ACC_BUFF_SIZE": 17}
    keys |= {f"LOG_{name}": size for name, size in (logs | buffers).items()}
    path = tmp_path / "vta_config.json"
    path.write_text(json.dumps(keys))
    done = simulate(program, "--json", "--accelerator", path)
    assert done.exit_code == 0, done.output
    path.write_text(json.dumps(keys | {"LOG_INP_BUFF_SIZE": 3}))
    done = simulate(program, "--json", "--accelerator", path)
    assert done.exit_code == 2, done.output
    assert json.loads(done.stdout)["field"] == "LOG_INP_BUFF_SIZE"


def test_inputs_that_do_not_fit(program: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", nothing=np.zeros(3, np.uint8))
    done = simulate(program, "--inputs", tmp_path / "x.npz", "--json")
    assert done.exit_code == 2, done.stderr
    assert json.loads(done.stdout)["field"] == "options.inputs"


WRONG = {
    "deadlock": [("load_inp", {"pop_next": 1, "y_size": 1, "x_size": 1, "x_stride": 1}), ("finish", {})],
    "memory-range": [("load_inp", {"sram_base": 2047, "y_size": 1, "x_size": 2, "x_stride": 2}), ("finish", {})],
    "dram-range": [("load_inp", {"dram_base": 2**31, "y_size": 1, "x_size": 1, "x_stride": 1}), ("finish", {})],
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_program_is_diagnosed(tmp_path: Path, kind: str) -> None:
    path = written(addition(listed=WRONG[kind]), tmp_path / "program")
    done = simulate(path, "--json")
    assert done.exit_code == 1, done.stderr
    problem = json.loads(done.stdout)
    assert problem["type"] == "/problems/simulation-failed"
    assert (problem["diagnosis"], problem["instruction"]) == (kind, 0)
    plain = simulate(path)
    assert plain.exit_code == 1
    assert plain.stdout == ""
    assert kind in plain.stderr


def test_an_undefined_opcode(tmp_path: Path) -> None:
    parts = addition()
    parts["instructions.bin"] = words(instructions()[:1]) + b"\xff" * 16 + parts["instructions.bin"]
    done = simulate(written(parts, tmp_path / "program"), "--json")
    assert done.exit_code == 1, done.stderr
    problem = json.loads(done.stdout)
    assert (problem["diagnosis"], problem["instruction"]) == ("undefined-opcode", 1)


FILES = {"a text file": b"hello", "an empty file": b"", "a cut zip": zipped(addition())[:-40]}
PARTS = {
    "a directory without program.json": {},
    "a part that is missing": {name: data for name, data in addition().items() if name != "x.bin"},
    "an accelerator that nobody knows": addition(accelerator="tpu"),
    "a key that nobody knows": addition(colour="red"),
    "half an instruction": addition() | {"instructions.bin": bytes(23)},
}


def unusable(name: str, tmp_path: Path) -> Path:
    path = tmp_path / "program"
    if name in FILES:
        path.write_bytes(FILES[name])
    elif name in PARTS:
        written(PARTS[name], path)
    elif name == "a program.json that is a directory":
        (path / "program.json").mkdir(parents=True)
    elif name == "a path through a file":
        (tmp_path / "file").write_text("x")
        return tmp_path / "file" / "program"
    return {"a device": Path(os.devnull), "a name too long": tmp_path / ("x" * 5000)}.get(name, path)


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("nothing", "invalid-program"),
        ("a device", "invalid-program"),
        ("a directory without program.json", "invalid-program"),
        ("a part that is missing", "invalid-program"),
        ("an accelerator that nobody knows", "invalid-accelerator"),
        ("a key that nobody knows", "invalid-program"),
        ("a program.json that is a directory", "invalid-program"),
        ("half an instruction", "invalid-program"),
        ("a path through a file", "invalid-program"),
        ("a name too long", "invalid-program"),
        ("a text file", "invalid-program"),
        ("an empty file", "invalid-program"),
        ("a cut zip", "invalid-program"),
    ],
)
def test_what_is_no_program(tmp_path: Path, name: str, slug: str) -> None:
    done = simulate(unusable(name, tmp_path), "--json")
    assert done.exit_code == 2, done.stderr
    problem = json.loads(done.stdout)
    assert problem["type"] == f"/problems/{slug}"
    assert problem["detail"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "program.zip"
    path.write_bytes(zipped(addition()))
    path.chmod(0)
    assert simulate(path).exit_code == 2


@pytest.mark.parametrize(
    "arguments", [["--engine", "fast"], ["--seed", "-1"], ["--accelerator", "tpu"], ["--accelerator", "x" * 5000]]
)
def test_options_that_are_refused(program: Path, arguments: list[str]) -> None:
    done = simulate(program, *arguments)
    assert done.exit_code == 2
    assert arguments[0][2:] in done.stderr or "too long" in done.stderr


@needs_golden
@pytest.mark.parametrize("name", ["conv14x14_16_16_3x3_r0", "test_save_load_out_r0"])
def test_a_recorded_run(tmp_path: Path, name: str) -> None:
    done = simulate(written(recorded(name), tmp_path / "program"), "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    (run,) = (run for run in documents("runs/index.json") if run["name"] == name)
    assert report["verified"] is True
    assert report["cycles"] == run["rtl_cycles"]


@pytest.mark.slow
def test_as_a_command_of_its_own(program: Path, tmp_path: Path) -> None:
    done = simulate_alone(program, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["verified"] is True

    wrong = simulate_alone(written(addition() | {"y.bin": bytes(64)}, tmp_path / "wrong"))
    assert (wrong.returncode, wrong.stderr) == (1, "")

    refused = simulate_alone(unusable("a text file", tmp_path / "wrong"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("cyclops: ")
    assert "Traceback" not in refused.stderr


def test_many_programs_have_a_line_each(program: Path, tmp_path: Path) -> None:
    """One that cannot be used takes its own line and not those of others."""
    nothing = tmp_path / "nothing.zip"
    done = simulate(program, nothing, program, "--jsonl")
    assert done.exit_code == 2
    first, second, third = map(json.loads, done.stdout.splitlines())
    alone = json.loads(simulate(program, "--json").stdout)
    assert (first["program"], first["verified"], first["cycles"]) == (str(program), True, alone["cycles"])
    assert [launch["cycles"] for launch in first["launches"]] == [layer["cycles"] for layer in alone["launches"]]
    assert second["program"] == str(nothing)
    assert second["problem"]["type"].endswith("invalid-program")
    assert third == first
    racing = simulate(written(addition(tokens=False), tmp_path / "race"), "--jsonl")
    assert racing.exit_code == 1
    assert json.loads(racing.stdout)["race_count"] == 1


@pytest.mark.parametrize("arguments", [[], ["--jsonl", "--json"], ["--jsonl", "--out", "out"]])
def test_of_many_programs_there_is_no_whole_report(program: Path, arguments: list[str]) -> None:
    done = simulate(program, program, *arguments)
    assert done.exit_code == 2
    assert "--jsonl" in done.stderr
