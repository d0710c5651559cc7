import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]


def pins(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for project, version in re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE):
        found.setdefault(project, []).append(version)
    return found


def wanted_by(lock: str) -> list[str]:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    running = document["project"]["dependencies"]
    return {
        "requirements.lock": running,
        "requirements-dev.lock": running + document["project"]["optional-dependencies"]["dev"],
        "requirements-bucket.lock": document["dependency-groups"]["bucket"],
        "requirements-web.lock": document["dependency-groups"]["web"],
    }[lock]


@pytest.mark.parametrize("lock", ["", "-dev", "-bucket", "-web"])
def test_a_lock_holds_what_the_project_asks_for(lock: str) -> None:
    lock = f"requirements{lock}.lock"
    locked = pins(lock)
    for requirement in map(Requirement, wanted_by(lock)):
        assert requirement.name in locked, f"{requirement}: run `make lock`"
        for version in locked[requirement.name]:
            assert requirement.specifier.contains(version), f"{requirement} against {version}: run `make lock`"


def test_both_locks_agree() -> None:
    running, developing = pins("requirements.lock"), pins("requirements-dev.lock")
    assert {name: developing.get(name) for name in running} == running
