"""The tutorials, followed step by step: every file that they write, every command, and what it prints.

What comes before the whole network takes little time; CI follows one to its end.
"""

from pathlib import Path

import pytest

from tests.helpers.marking import others_all
from tests.helpers.transcript import Command, File, follow, prepare, steps

TUTORIALS = sorted((Path(__file__).parents[3] / "docs" / "tutorials").glob("*.md"))
WHOLE, OTHERS = TUTORIALS[1], [TUTORIALS[0], TUTORIALS[2]]
NETWORK = "examples.resnet8"


def quick(document: str) -> list[File | Command]:
    """The steps before the network is made."""
    found = list(steps(document))
    network = next(i for i, step in enumerate(found) if isinstance(step, Command) and NETWORK in step.text)
    return found[:network]


def follow_all(todo: list[File | Command], directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(directory)
    monkeypatch.chdir(directory)
    for step in todo:
        follow(step, directory)


@pytest.mark.all
def test_the_page_on_calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = TUTORIALS[0].parents[1] / "calibration.md"
    follow_all(list(steps(page.read_text(encoding="utf-8"))), tmp_path, monkeypatch)


def test_there_are_three() -> None:
    assert [path.name[:3] for path in TUTORIALS] == ["01-", "02-", "03-"]


@pytest.mark.slow
@pytest.mark.parametrize("path", others_all(TUTORIALS, OTHERS), ids=lambda path: path.stem)
def test_the_beginning(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    todo = quick(path.read_text(encoding="utf-8"))
    assert sum(isinstance(step, Command) for step in todo) > 5
    follow_all(todo, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("path", others_all(TUTORIALS, [WHOLE]), ids=lambda path: path.stem)
def test_the_whole(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow_all(list(steps(path.read_text(encoding="utf-8"))), tmp_path, monkeypatch)
