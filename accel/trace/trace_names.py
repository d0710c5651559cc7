"""The names that the numbers of a trace stand for: operations, units, queues, launches, origins."""

from typing import Literal

import pydantic
from pydantic import ConfigDict, Field

from accel.program.program_model import InstructionOrigin

FIXED = ("launch", "kind", "start", "end", "origin")


class _Model(pydantic.BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RowSemantics(_Model):
    """An expression that an instruction may be, and the values of its fields that choose it."""

    text: str
    when: dict[str, int]


class TraceOperation(_Model):
    """An instruction of the accelerator: its unit, and its fields that vary, in the order of the document.

    ``does`` are the expressions that it may be; the last word of a sequence has the sequence's.
    """

    name: str
    unit: str
    fields: tuple[str, ...]
    does: tuple[RowSemantics, ...] = ()


class Queue(_Model):
    """A token queue between two units.

    ``push`` and ``pop`` give, for each operation, the field that counts the tokens it sends or takes, or None.
    """

    name: str
    producer: str
    consumer: str
    push: tuple[str | None, ...]
    pop: tuple[str | None, ...]
    initial: int = 0


class LaunchSpan(_Model):
    """A launch and its cycles ``[begin, end)`` on the program's clock; both 0 where timing did not run.

    One that is ``joined`` runs in one with the launch before it, whose units may have begun it before ``begin``.
    """

    name: str
    begin: int
    end: int
    joined: bool = False


class HostSpan(_Model):
    """A host step, which takes no cycles, and the cycle at which it ran."""

    name: str
    cycle: int


class TraceNames(_Model):
    """The words of a trace.

    ``causes_awaited`` are the causes of which each row says for which instruction it waited; older files have none.
    ``timed`` is False where timing did not run: starts and ends are then -1. ``causes`` are what instructions lost
    cycles to, ``fields`` every field of some operation, once. ``clock_mhz`` is the accelerator's.
    """

    version: Literal[2, 3] = 3
    accelerator: str
    clock_mhz: float = Field(gt=0)
    timed: bool
    units: tuple[str, ...]
    operations: tuple[TraceOperation, ...]
    queues: tuple[Queue, ...]
    fields: tuple[str, ...]
    causes: tuple[str, ...]
    causes_awaited: tuple[str, ...] = ()
    launches: tuple[LaunchSpan, ...]
    hosts: tuple[HostSpan, ...]
    origins: tuple[InstructionOrigin, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column of the trace: ``FIXED``, then ``field/NAME``, then ``wait/CAUSE``, and ``awaited/CAUSE``.

        The last says how many rows before its own the instruction stands that was waited for; 0: none.
        """
        fields = (f"field/{name}" for name in self.fields)
        waits = (f"wait/{cause}" for cause in self.causes)
        return (*FIXED, *fields, *waits, *(f"awaited/{cause}" for cause in self.causes_awaited))

    @property
    def cycles(self) -> int:
        """Cycles of the whole program."""
        return max((launch.end for launch in self.launches), default=0)
