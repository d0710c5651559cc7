"""A chain of stages: each takes what the one before left, and its type says what that is."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

_First = TypeVar("_First")
_Last = TypeVar("_Last")
_Next = TypeVar("_Next", bound="Phase")


@dataclass(frozen=True)
class StageDump:
    """A stage's text, and beneath it those of the TVM passes within, in order.

    ``passes`` are their names, and the texts after them; None where a pass changed nothing.
    """

    text: str
    passes: tuple[tuple[str, str | None], ...] = ()


class Phase:
    """What a stage leaves behind."""

    def dump(self) -> StageDump | None:
        """Returns it as text; None where there is nothing that a reader does not find in an artifact."""
        return None

    def save(self, out: Path) -> None:
        """Write its artifacts into ``out``."""


@dataclass(frozen=True)
class StageInfo:
    """A stage's name, and what it does in one line."""

    name: str
    description: str


class Observer(Protocol):
    """Whoever follows a chain as it runs."""

    def begin(self, stage: StageInfo, number: int) -> None:
        """Stage ``number``, counted from 0, begins, and the one before it is over."""

    def made(self, phase: Phase) -> None:
        """The stage that began last has made ``phase``."""


class Unobserved:
    """Follows nothing."""

    def begin(self, stage: StageInfo, number: int) -> None:
        """Nothing to do."""

    def made(self, phase: Phase) -> None:
        """Nothing to do."""


@dataclass(frozen=True)
class StageChain(Generic[_First, _Last]):
    """Stages in the order in which they run.

    A phase is held until the next one is made, and no longer: what later stages need of it, later phases have.
    """

    stages: tuple[StageInfo, ...]
    run: Callable[[_First, Observer], _Last]

    def then(self, name: str, description: str, step: Callable[[_Last], _Next]) -> "StageChain[_First, _Next]":
        """Returns the chain with a stage more."""
        stage, number = StageInfo(name, description), len(self.stages)

        def run(first: _First, observer: Observer) -> _Next:
            before = self.run(first, observer)
            observer.begin(stage, number)
            after = step(before)
            del before
            observer.made(after)
            return after

        return StageChain((*self.stages, stage), run)

    def within(self, step: Callable[[_Last], _Next]) -> "StageChain[_First, _Next]":
        """Returns the chain whose last stage goes on with ``step``; what it has made so far is saved before."""

        def run(first: _First, observer: Observer) -> _Next:
            after = step(self.run(first, observer))
            observer.made(after)
            return after

        return StageChain(self.stages, run)


def start(first: _First, _observer: Observer) -> _First:
    """The chain of no stages runs so."""
    return first
