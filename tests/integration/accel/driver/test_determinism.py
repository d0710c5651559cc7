"""The same model, accelerator and seed give the same bytes, whatever order a process hashes names in."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_JOB = """
import sys
from pathlib import Path
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import Options, run_model
from examples.networks import build
run_model(build("keyword_spotting").SerializeToString(), load_accelerator("vta"), Options(seed=3), Path(sys.argv[1]))
"""


def digests(out: Path, hash_seed: str) -> dict[str, str]:
    out.mkdir()
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    subprocess.run([sys.executable, "-c", _JOB, str(out)], check=True, env=environment, cwd=Path(__file__).parents[4])
    report = out / "report.json"
    document = json.loads(report.read_text())
    for seconds in ("stages", "compile_seconds"):
        del document[seconds]
    report.write_text(json.dumps(document))
    files = [path for path in out.rglob("*") if path.is_file()]
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.slow
def test_every_artifact_is_the_same_in_another_process(tmp_path: Path) -> None:
    assert digests(tmp_path / "first", "1") == digests(tmp_path / "second", "77")
