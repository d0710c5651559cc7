"""Functions on their way through the stages of lowering: what each stage and each TVM pass made of them.

They are kept as functions, and printed when somebody asks: of a region that is compiled to be timed nobody may.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import tvm
from tvm import ir, tirx
from tvm.ir.instrument import pass_instrument
from tvm_ffi import structural_equal

from accel.accelerator.target import Target
from accel.lowering.codegen.region_object import RegionObject

NAMELESS = "region"
Lower = Callable[[ir.IRModule, Target], ir.IRModule]


def nameless_text(function: tirx.PrimFunc) -> str:
    """Returns a function as TVMScript, without the imports, under a name that is the same for all."""
    _imports, _, text = function.with_attr("global_symbol", NAMELESS).script().partition("\n\n")
    return str(text)


@dataclass(frozen=True)
class StageText:
    """A function as a stage left it, nameless, and as each TVM pass within the stage did.

    ``passes`` are names and texts, None where the function stayed as it was.
    """

    text: str
    passes: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True)
class _PassRecord:
    """A function before and after a TVM pass."""

    name: str
    before: tirx.PrimFunc | None
    after: tirx.PrimFunc

    def changed(self) -> bool:
        return not structural_equal(self.before, self.after)


@dataclass(frozen=True)
class StageRecord:
    """A function as a stage left it, and around each TVM pass within the stage."""

    function: tirx.PrimFunc
    passes: tuple[_PassRecord, ...]

    def text(self) -> StageText:
        """Returns the texts; of a function that is there twice the same."""
        return self._text

    @cached_property
    def _text(self) -> StageText:
        last, text = None, ""
        passes: list[tuple[str, str | None]] = []
        for record in self.passes:
            if not record.changed():
                passes.append((record.name, None))
                continue
            last, text = record.after, nameless_text(record.after)
            passes.append((record.name, text))
        if last is None or not last.same_as(self.function):
            text = nameless_text(self.function)
        return StageText(text, tuple(passes))


@dataclass(frozen=True)
class Printed:
    """What a stage made of a function that is printed already."""

    printed: StageText

    def text(self) -> StageText:
        """Returns the texts."""
        return self.printed


class Printable(Protocol):
    """What a stage made of a function, printed when somebody asks."""

    def text(self) -> StageText:
        """Returns the texts."""


@dataclass(frozen=True)
class LoweredRegion:
    """A region that went through all stages by itself: its packed function, what each stage made of it, its object."""

    packed: tirx.PrimFunc
    stages: Mapping[str, Printable]
    made: RegionObject


def run_stage(module: ir.IRModule, target: Target, lower: Lower) -> tuple[ir.IRModule, dict[str, StageRecord]]:
    """Returns the module as a stage leaves it, and what became of each function.

    Raises:
        CompileError: as the stage does.
    """
    passes = _FunctionPasses()
    with tvm.transform.PassContext(instruments=[passes]):
        lowered = lower(module, target)
    records = {
        name: StageRecord(function, tuple(passes.records.get(name, ()))) for name, function in _by_name(lowered).items()
    }
    return lowered, records


@pass_instrument
class _FunctionPasses:
    """A TVM pass instrument that keeps each function as each pass found it, and left it."""

    def __init__(self) -> None:
        self.records: dict[str, list[_PassRecord]] = {}
        self._before: list[dict[str, Any]] = []

    def run_before_pass(self, module: Any, _info: Any) -> None:
        """TVM calls this; passes nest, so it is a stack."""
        self._before.append(_by_name(module))

    def run_after_pass(self, module: Any, info: Any) -> None:
        """TVM calls this. A pass that is a sequence of passes says nothing of its own."""
        before = self._before.pop()
        if str(info.name) == "sequential":
            return
        for name, function in _by_name(module).items():
            self.records.setdefault(name, []).append(_PassRecord(str(info.name), before.get(name), function))


def _by_name(module: Any) -> dict[str, Any]:
    return {str(variable.name_hint): function for variable, function in module.functions.items()}
