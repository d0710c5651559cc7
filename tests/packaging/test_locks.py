import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def pins(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for project, version in re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE):
        found.setdefault(project, []).append(version)
    return found


@pytest.mark.parametrize(("lock", "extra"), [("requirements.lock", None), ("requirements-dev.lock", "dev")])
def test_a_lock_holds_what_the_project_asks_for(lock: str, extra: str | None) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + (project["optional-dependencies"][extra] if extra else [])
    locked = pins(lock)
    for requirement in map(Requirement, wanted):
        assert requirement.name in locked, f"{requirement}: run `make lock`"
        for version in locked[requirement.name]:
            assert requirement.specifier.contains(version), f"{requirement} against {version}: run `make lock`"


def test_both_locks_agree() -> None:
    running, developing = pins("requirements.lock"), pins("requirements-dev.lock")
    assert {name: developing.get(name) for name in running} == running
