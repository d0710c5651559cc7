import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from service.cli.commands import app
from service.cli.compare_reports import compare_local
from tests.unit.accel.report.test_comparison import account, layer, report

BEFORE = report([layer("conv[1]", ["conv"], account(busy={"gemm": 1000}, memory={"load_wgt": 500}))])
AFTER = report(
    [layer("conv[1]", ["conv"], account(busy={"gemm": 1000}, memory={"load_wgt": 100})), layer("new", [], account())],
    host=("relu",),
)


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
    status = compare_local(a, b, Console(file=out, width=140), Console(file=errors, width=140), as_json=False)
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
    assert "give the folder that --out of a run named, or its report.json" in errors
    (runs[0] / "report.json").write_text("{}")
    assert "[a] it is no report of this version" in compared(*runs)[2]


def test_json_is_the_comparison_or_the_problem(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(file=io.StringIO())
    assert compare_local(*runs, console, console, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["difference"] == -400
    assert compare_local(runs[0], Path("/nowhere"), console, console, as_json=True) == 2
    assert json.loads(capsys.readouterr().out)["type"] == "/problems/invalid-report"


def test_the_command_compares_what_it_is_given(runs: tuple[Path, Path]) -> None:
    found = CliRunner().invoke(app, ["compare", str(runs[0]), str(runs[1]), "--json"])
    assert (found.exit_code, json.loads(found.stdout)["difference"]) == (0, -400)
    assert CliRunner().invoke(app, ["compare", str(runs[0]), str(runs[1] / "x")]).exit_code == 2
