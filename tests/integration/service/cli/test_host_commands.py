"""``cyclops host measure``: a section that a document takes, with what cannot be measured as it was."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from service.cli.commands import app

RUN = CliRunner()


@pytest.mark.slow
def test_a_measured_host_goes_into_a_document(tmp_path: Path) -> None:
    """Half of the operators are priced within a factor of 4 even where others load the machine."""
    before = load_accelerator("vta").host
    assert before is not None
    file = tmp_path / "mine.json"
    file.write_text(load_accelerator("vta").model_dump_json())
    done = RUN.invoke(app, ["host", "measure", "--into", str(file), "--clock-mhz", "1300"])
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    found = parse_accelerator(file.read_bytes()).host
    assert found is not None
    assert (found.basis, found.clock_mhz) == ("measured", 1300)
    assert (found.launch_cycles, found.completion_cycles) == (2 * before.launch_cycles, 2 * before.completion_cycles)
    factor = float(found.source.partition("within a factor of ")[2].split()[0])
    assert 1 <= factor < 4
    assert found.elements_per_cycle.contraction > found.elements_per_cycle.exponential


def test_a_document_that_cannot_be_read_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("name: wrong\n")
    for file, said in ((tmp_path / "none.yaml", "No such file"), (wrong, "the key is missing")):
        done = RUN.invoke(app, ["host", "measure", "--into", str(file)])
        assert done.exit_code == 2
        assert said in done.output
    assert wrong.read_text() == "name: wrong\n"
