import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command",
    [
        ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml"],
        ["hadolint", "Dockerfile"],
    ],
    ids=["compose", "dockerfile"],
)
def test_lint(command: list[str]) -> None:
    done = subprocess.run([BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_is_not_run_by_root() -> None:
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    assert "\nUSER 10001:10001\n" in stages[-1]


def test_the_image_gets_every_package() -> None:
    copied = (ROOT / "Dockerfile").read_text()
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    for package in ("accel", "worker", "service", "examples"):
        assert f"COPY {package} {package}\n" in copied
        assert f"!{package}" in allowed
