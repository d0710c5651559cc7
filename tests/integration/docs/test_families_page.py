"""docs/families.md: its example is a package that installs, and its family times DRAM rows as it says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.single import Conv, conv_model
from tests.helpers.marking import rest_all

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "examples" / "plugin"
TEXT = (ROOT / "docs" / "families.md").read_text(encoding="utf-8")

RUNS = """
import json, sys
from typer.testing import CliRunner
from service.cli.commands import app

for machine in sys.argv[2:]:
    result = CliRunner().invoke(app, ["run", sys.argv[1], "--accelerator", machine, "--json"])
    assert result.exit_code == 0, result.output
    print(json.dumps(json.loads(result.output)))
"""
OPENED = """
import json, sys
import numpy as np
from accel.isa.family import Boxes
from open_row.family import OpenRowParameters, rows_opened

case = json.load(sys.stdin)
boxes = Boxes(*(np.array(case[name]) for name in ("instruction", "begin", "rows", "row_stride", "row_bytes", "write")))
memory = OpenRowParameters(row_bytes=case["page"], banks=case["banks"])
print(rows_opened(boxes, memory, case["count"]).tolist())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the package, as an installer leaves it."""
    directory = tmp_path_factory.mktemp("site")
    uv = Path(sys.executable).parent / "uv"
    if not uv.exists():
        pytest.skip("uv is not installed")
    command = [uv, "pip", "install", "--offline", "--no-deps", "--target", directory, PLUGIN]
    subprocess.run(command, check=True, capture_output=True)
    return directory


def python(arguments: list[str], path: Path | None, text: str = "") -> subprocess.CompletedProcess[str]:
    """Python in a process of its own, which finds what is installed in ``path``."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = environment if path is None else environment | {"PYTHONPATH": str(path)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=found, input=text, capture_output=True, text=True, check=False)


def reports(directory: Path, documents: list[str], path: Path) -> list[dict[str, Any]]:
    """The reports of a layer on the accelerators of ``documents``."""
    files = [directory / f"machine{number}.yaml" for number in range(len(documents))]
    for file, document in zip(files, documents, strict=True):
        file.write_text(document, encoding="utf-8")
    (directory / "layer.onnx").write_bytes(conv_model(Conv(16, 16, 8, 8, relu=True)).SerializeToString())
    done = python(["-c", RUNS, str(directory / "layer.onnx"), *map(str, files)], path)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def in_explicit(document: str) -> str:
    """The same machine in the family explicit, whose DRAM has no rows."""
    without = re.sub(r"^parameters:.*?\n\n", "", document, flags=re.MULTILINE | re.DOTALL)
    return without.replace("family: open_row", "family: explicit")


@pytest.mark.slow
def test_a_job_runs_on_it_and_pays_for_closed_rows(installed: Path, tmp_path: Path) -> None:
    document = (PLUGIN / "open-row.yaml").read_text(encoding="utf-8")
    assert "miss_cycles: 20" in document
    without = document.replace("miss_cycles: 20", "miss_cycles: 0")
    explicit, free, paid = reports(tmp_path, [in_explicit(document), without, document], installed)
    assert explicit["verified"] is free["verified"] is paid["verified"] is True
    assert free["cycles"] == explicit["cycles"]
    misses = [unit["stalled"].get("memory", 0) for unit in paid["units"].values()]
    assert sum(misses) > 0
    assert sum(misses) % 20 == 0
    assert 0 < paid["cycles"] - free["cycles"] <= sum(misses)


def opened(case: dict[str, list[int]], page: int, banks: int) -> list[int]:
    """Row by row, as a memory controller would see it."""
    count = max(case["instruction"]) + 1
    result, open_rows = [0] * count, {}
    for box in range(len(case["begin"])):
        for turn in range(case["rows"][box]):
            begin = case["begin"][box] + turn * case["row_stride"][box]
            for row in range(begin // page, (begin + case["row_bytes"][box] - 1) // page + 1):
                if open_rows.get(row % banks) != row:
                    result[case["instruction"][box]] += 1
                    open_rows[row % banks] = row
    return result


@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_all(range(3)))
def test_rows_are_opened_as_a_controller_would(seed: int, installed: Path) -> None:
    random, size = np.random.default_rng(seed), 200
    case = {
        "instruction": np.sort(random.choice(2 * size, size, replace=False)).tolist(),
        "begin": random.integers(0, 4096, size).tolist(),
        "rows": random.integers(1, 5, size).tolist(),
        "row_stride": random.integers(0, 300, size).tolist(),
        "row_bytes": random.integers(1, 300, size).tolist(),
    }
    given = case | {"write": [False] * size, "page": 128, "banks": 4, "count": max(case["instruction"]) + 1}
    done = python(["-c", OPENED], installed, json.dumps(given))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == opened(case, 128, 4)


@pytest.mark.slow
def test_without_the_package_the_document_is_refused() -> None:
    done = python(["-m", "service.cli", "accelerator", "check", str(PLUGIN / "open-row.yaml")], None)
    assert done.returncode == 1
    assert done.stderr.strip() in TEXT


@pytest.mark.slow
def test_other_orders_and_wrong_parameters_are_refused(installed: Path, tmp_path: Path) -> None:
    document = (PLUGIN / "open-row.yaml").read_text(encoding="utf-8")
    for before, after, field in (
        ("kind: in_order", "kind: hazards", "synchronisation.kind"),
        ("banks: 8", "banks: 0", "parameters.banks"),
        ("banks: 8", "bank: 8", "parameters.bank"),
    ):
        (tmp_path / "machine.yaml").write_text(document.replace(before, after), encoding="utf-8")
        done = python(["-m", "service.cli", "accelerator", "check", str(tmp_path / "machine.yaml")], installed)
        assert done.returncode == 1
        assert done.stderr.startswith(f"cyclops: {field}"), done.stderr


def test_the_document_quotes_the_package() -> None:
    for language, name in (("toml", "pyproject.toml"), ("yaml", "open-row.yaml")):
        (quoted,) = re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
        assert quoted in (PLUGIN / name).read_text(encoding="utf-8")
