import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from accel.errors import InvalidReport
from service.cli.commands import app
from service.cli.compare_reports import compare_local
from service.cli.remote_runs import JobAddress, Services, job_address
from tests.unit.accel.report.test_comparison import account, layer, report

JOB = "0123456789abcdef" * 2
BEFORE = report([layer("conv[1]", ["conv"], account(busy={"gemm": 1000}, memory={"load_wgt": 500}))])
AFTER = report(
    [layer("conv[1]", ["conv"], account(busy={"gemm": 1000}, memory={"load_wgt": 100})), layer("new", [], account())],
    host=("relu",),
)
NOWHERE = Services("http://127.0.0.1:9")


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    for name, found, width in (("a", BEFORE, 8), ("b", AFTER, 16)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(json.dumps(found))
        document = {"dram": {"bus_bytes": width}, "units": [{"name": "[red]x"}] if name == "b" else []}
        (tmp_path / name / "accelerator.json").write_text(json.dumps(document))
    return tmp_path / "a", tmp_path / "b"


def compared(a: Path, b: Path) -> tuple[int, str, str]:
    out, errors = io.StringIO(), io.StringIO()
    status = compare_local(
        str(a), str(b), NOWHERE, Console(file=out, width=140), Console(file=errors, width=140), as_json=False
    )
    return status, out.getvalue(), errors.getvalue()


def test_folders_and_files_say_what_differs(runs: tuple[Path, Path]) -> None:
    status, text, _ = compared(runs[0], runs[1] / "report.json")
    assert status == 0
    assert "from a to b: -400 cycles (-26.7%)" in text
    assert "/dram/bus_bytes: 8 -> 16" in text
    assert "[red]x" in text  # a user's text is no markup
    assert "on the host in b alone: relu" in text
    (row,) = [line for line in text.splitlines() if "conv[1]" in line]
    assert [part.strip() for part in row.split("│")[1:-1]] == [
        *("conv[1]", "1,500", "1,100", "-400", "memory: load_wgt -400")
    ]
    assert "not there" in text


def test_energies_are_compared_where_one_is_known(runs: tuple[Path, Path]) -> None:
    assert "energy" not in compared(*runs)[1]
    path = runs[0] / "report.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"energy_pj": 1234567.0}))
    (row,) = [line for line in compared(*runs)[1].splitlines() if "energy, pJ" in line]
    assert [part.strip() for part in row.split("│")[2:-1]] == ["1,234,567", ""]


def test_without_the_documents_the_rest_is_compared(runs: tuple[Path, Path]) -> None:
    (runs[0] / "accelerator.json").unlink()
    status, text, _ = compared(*runs)
    assert status == 0
    assert "documents were not compared: there is no accelerator.json of a" in text


def test_what_cannot_be_read_is_refused_by_its_name(runs: tuple[Path, Path]) -> None:
    status, _, errors = compared(runs[0], runs[1] / "nothing")
    assert status == 2
    assert "[b]" in errors
    assert "give the folder that --out of a run named, its report.json, or a job's id or address" in errors
    (runs[0] / "report.json").write_text("{}")
    assert "[a] it is no report of this version" in compared(*runs)[2]


def test_json_is_the_comparison_or_the_problem(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(file=io.StringIO())
    assert compare_local(*map(str, runs), NOWHERE, console, console, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["difference"] == -400
    assert compare_local(str(runs[0]), "/nowhere", NOWHERE, console, console, as_json=True) == 2
    assert json.loads(capsys.readouterr().out)["type"] == "/problems/invalid-report"


def test_the_command_compares_what_it_is_given(runs: tuple[Path, Path]) -> None:
    found = CliRunner().invoke(app, ["compare", str(runs[0]), str(runs[1]), "--json"])
    assert (found.exit_code, json.loads(found.stdout)["difference"]) == (0, -400)
    assert CliRunner().invoke(app, ["compare", str(runs[0]), str(runs[1] / "x")]).exit_code == 2


@pytest.mark.parametrize(
    ("text", "url", "share"),
    [
        (JOB, f"http://here:1/v1/jobs/{JOB}", None),
        ("latest", "http://here:1/v1/jobs/latest", None),
        (f"https://there/jobs/{JOB}", f"https://there/v1/jobs/{JOB}", None),
        (f"https://there/below/jobs/{JOB}/timeline?share=s&select=3#x", f"https://there/below/v1/jobs/{JOB}", "s"),
        (f"http://there/v1/jobs/{JOB}/report", f"http://there/v1/jobs/{JOB}", None),
    ],
)
def test_a_job_is_named_by_its_id_or_the_address_of_a_page(text: str, url: str, share: str | None) -> None:
    assert job_address(text, "http://here:1/", "a") == JobAddress(url, share)


def test_a_path_is_no_job_and_another_address_is_refused() -> None:
    assert job_address("out/before", "http://here", "a") is None
    assert job_address(JOB[:12], "http://here", "a") is None
    with pytest.raises(InvalidReport, match="no address of a job"):
        job_address("https://there/models", "http://here", "a")


@pytest.mark.parametrize(
    ("address", "told"),
    [("http://here:1/v1/jobs/x", True), ("http://here:2/v1/jobs/x", False), ("https://here:1/v1/jobs/x", False)],
)
def test_a_key_is_told_to_its_service_alone(address: str, told: bool) -> None:
    assert bool(Services("http://here:1/", "secret").headers_for(JobAddress(address))) is told


def test_a_folder_goes_before_a_job_and_a_service_that_is_not_there_is_said(
    runs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs[0].parent)
    runs[0].rename("latest")
    assert compared(Path("latest"), runs[1])[0] == 0
    status, _, errors = compared(Path(JOB), runs[1])
    assert status == 2
    assert f"[a] http://127.0.0.1:9/v1/jobs/{JOB}/report cannot be read" in errors
