"""A launch as the functional kernel takes it: one row an instruction, whose columns depend on its sort."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.memories import DTYPE_BYTES
from accel.isa.arrays import aligned_zeros
from accel.isa.decode import Decoded
from accel.isa.explicit.accesses import copying, extents_of
from accel.isa.explicit.executions import Executions, executions_of
from accel.isa.explicit.sorts import Sort, sorts_of

Int64 = npt.NDArray[np.int64]

CODE = 0
COPY = ("sram", "dram", "rows", "columns", "row_stride", "top", "left", "height", "width")


@dataclass(frozen=True)
class Columns:
    """Which column of a row holds what, for one sort.

    ``shape`` are those of a copy, by their names in ``COPY``. Of a compute, ``extents`` has one for each loop, and
    ``bases`` and ``steps`` one for each tensor, the latter for each of its loops.
    """

    shape: dict[str, int]
    extents: tuple[int, ...]
    bases: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    scalars: tuple[int, ...]

    @property
    def count(self) -> int:
        """Columns that the sort needs, the code among them."""
        loops = sum(map(len, self.steps))
        return 1 + len(self.shape) + len(self.extents) + len(self.bases) + loops + len(self.scalars)


def columns_of(sort: Sort) -> Columns:
    """Where the kernel finds the numbers of ``sort``; column ``CODE`` holds its code."""
    free = iter(range(CODE + 1, 1 << 16))
    if isinstance(sort.instruction, Copy):
        shape = {name: next(free) for name in COPY}
        return Columns(shape, (), (), (), tuple(next(free) for _ in sort.scalars))
    extents = tuple(next(free) for _ in sort.instruction.loops)
    bases = tuple(next(free) for _ in sort.tensors)
    steps = tuple(tuple(next(free) for _ in tensor.steps) for tensor in sort.tensors)
    return Columns({}, extents, bases, steps, tuple(next(free) for _ in sort.scalars))


def table_width(sorts: tuple[Sort, ...]) -> int:
    """Columns of the table: those of the sort that needs most."""
    return max((columns_of(sort).count for sort in sorts), default=1)


def launch_table(decoded: Decoded) -> Int64:
    """The kernel's table (n, width); instructions that do nothing have code 0.

    Raises:
        SimulationError: see :func:`executions_of`.
    """
    width = table_width(sorts_of(decoded.accelerator))
    table = aligned_zeros(len(decoded) * width * 8).view(np.int64).reshape(-1, width)
    for executions in executions_of(decoded):
        if len(executions.words):
            _fill(table, executions)
    return table


def _fill(table: Int64, executions: Executions) -> None:
    """The rows of one sort."""
    sort, words = executions.sort, executions.words
    columns, rows = columns_of(sort), words.rows
    table[rows, CODE] = sort.code
    if isinstance(sort.instruction, Copy):
        shape = copying(words, sort.instruction)
        size = DTYPE_BYTES[sort.instruction.dram_dtype]
        for name, column in columns.shape.items():
            values = getattr(shape, name)
            table[rows, column] = values // size if name in ("dram", "row_stride") else values
    elif isinstance(sort.instruction, Compute):
        for extent, column in zip(extents_of(words, sort.instruction.loops), columns.extents, strict=True):
            table[rows, column] = extent
        for tensor, base, steps in zip(sort.tensors, columns.bases, columns.steps, strict=True):
            table[rows, base] = words.column(tensor.address)
            for step, column in zip(tensor.steps, steps, strict=True):
                table[rows, column] = words.column(step) if isinstance(step, str) else step
    for (_, field), column in zip(sort.scalars, columns.scalars, strict=True):
        table[rows, column] = words.column(field)
