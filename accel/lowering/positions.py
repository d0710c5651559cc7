"""Where in a launch the instructions of each call stand: their numbers are affine in the loops around it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx

from accel.errors import CompileError
from accel.lowering import intrinsic
from accel.lowering.evaluate import Value


@dataclass(frozen=True)
class Position:
    """A call's first instruction is number ``offset + sum(steps[k] * iteration of loops[k])``, outermost loop first."""

    call: tirx.Evaluate
    offset: int
    loops: tuple[tirx.For, ...] = ()
    steps: tuple[int, ...] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        """Iterations of each loop."""
        return tuple(int(loop.extent) for loop in self.loops)

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The numbers themselves, an axis a loop."""
        rows = np.array(self.offset, np.int64)
        for extent, step in zip(self.extents, self.steps, strict=True):
            rows = rows[..., None] + step * np.arange(extent, dtype=np.int64)
        return rows

    @property
    def variables(self) -> dict[tirx.Var, Value]:
        """The values of the loops' variables, an axis a loop."""
        found = {}
        for axis, loop in enumerate(self.loops):
            shape = [1] * len(self.loops)
            shape[axis] = -1
            numbers = int(loop.min) + np.arange(int(loop.extent), dtype=np.int64)
            found[loop.loop_var] = Value(numbers.reshape(shape), {})
        return found


def positions(body: Any, length: Callable[[tirx.Evaluate], int]) -> tuple[list[Position], int]:
    """The position of every call in an allocated function's body, in program order, and how many instructions it has.

    Args:
        body: sequences, loops of constant extent, and calls.
        length: instructions that one run of a call makes.

    Raises:
        CompileError: any other statement.
    """
    if isinstance(body, tirx.SeqStmt):
        found: list[Position] = []
        size = 0
        for child in body.seq:
            inner, count = positions(child, length)
            found += [replace(position, offset=position.offset + size) for position in inner]
            size += count
        return found, size
    if isinstance(body, tirx.For):
        inner, count = positions(body.body, length)
        around = [
            replace(position, loops=(body, *position.loops), steps=(count, *position.steps)) for position in inner
        ]
        return around, count * int(body.extent)
    if intrinsic.is_call(body):
        return [Position(body, 0)], length(body)
    raise CompileError(f"an allocated function has loops and calls only: {body}", field="instruction")
