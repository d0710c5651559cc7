"""What a confined process sees of the secrets of the one that forked it: nothing, wherever the kernel shows them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at a process through /proc")
SECRETS = {
    "CYCLOPS_REDIS_PASSWORD": "hidden-one",
    "CYCLOPS_REDIS_URL": "rediss://127.0.0.1:1/?hidden-two",
    "CYCLOPS_STORE_URL": "s3://records",
    "CYCLOPS_STORE_SECRET_ACCESS_KEY": "hidden-three",
    "AWS_SECRET_ACCESS_KEY": "hidden-four",
    "SOMETHING_ELSE": "hidden-five",
}
_PROBE = """
import os, sys
from pathlib import Path
from tests.helpers.confined import told_by_child
from worker.sandbox.confinement import confine
from worker.config.settings import Settings

def open_links():
    links = {number: f"/proc/self/fd/{number}" for number in map(int, os.listdir("/proc/self/fd"))}
    return {number: os.readlink(link) for number, link in links.items() if os.path.islink(link)}

def probe():
    # as of a job: all are closed but a line to who attends to it
    lines = [number for number, link in open_links().items() if link.startswith("pipe:")]
    confine(Settings(data=root / "data"), root / "data/scratch/job", keep=lines)
    seen = {name: Path(f"/proc/self/{name}").read_bytes() for name in ("environ", "cmdline")}
    seen["variables"] = dict(os.environ)
    seen["status"] = os.environ.get("CYCLOPS_REDIS_PASSWORD")
    seen["open"] = open_links()
    return seen

root, leak = Path(sys.argv[1]), open(sys.argv[2])
print(told_by_child(probe))
print("still", os.environ["CYCLOPS_REDIS_PASSWORD"])
"""


def test_a_confined_process_sees_no_secret(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hidden-six")
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, str(tmp_path), str(secret)],
        env=os.environ | SECRETS | {"LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    seen, after = done.stdout.splitlines()
    assert "hidden" not in seen
    assert "LC_ALL" in seen
    assert "'status': None" in seen
    assert str(secret) not in seen.partition("'open'")[2]
    assert after == "still hidden-one"  # the one that forked it has them
