"""A nest that stores a function of whole rows becomes the passes and the stores of an instruction that has it.

Several rows are taken in turn, as their statistics are kept: a pass over each of them, then the next pass. Where such
groups do not divide the rows, the last one has some of those before it once more.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from accel.accelerator.instructions import Copy
from accel.accelerator.memories import Memory
from accel.accelerator.row_functions import READS, RowFunction
from accel.accelerator.target import Target
from accel.errors import CompileError
from accel.lowering.inject.copy_injection import copy_call
from accel.lowering.ir.affine_nest import AffineAccess, AffineNest, in_loops
from accel.lowering.ir.document_paths import INSTRUCTIONS
from accel.lowering.ir.row_intrinsics import StoredRow, read_row


def inject_rows(nest: AffineNest, copy: Copy, target: Target) -> tirx.Stmt:
    """Returns the passes and stores for ``nest``, whose loops are rows, blocks of a row, and what is in an element.

    Raises:
        CompileError: the nest stores something else, or rows that the instruction does not take.
    """
    assert copy.rows is not None
    row, memory = read_row(nest.store.value), target.accelerator.memory(copy.memory)
    if row.function != copy.rows.function:
        raise CompileError(f"{copy.name} stores {copy.rows.function}, and no {row.function}", field=INSTRUCTIONS)
    stored, summed = (nest.access(load.source, load.indices) for load in (row.stored, row.summed))
    if stored.strides != summed.strides:
        raise CompileError("what is summed does not lie as what is stored", field=INSTRUCTIONS)
    rows, blocks = _extents(nest, stored, copy, memory)
    if not copy.rows.takes(rows, blocks):
        few = f"{copy.name} takes no {rows} rows of {blocks} blocks"
        raise CompileError(few, field=INSTRUCTIONS)
    return _Rows(copy, copy.rows, memory, row, (stored, summed, nest.target), rows, blocks).statement()


def _extents(nest: AffineNest, sram: AffineAccess, copy: Copy, memory: Memory) -> tuple[int, int]:
    """The rows and blocks of a nest, which lie as the instruction walks them."""
    size, pitch = memory.element_count, _pitch(nest.target, memory)
    apart = 0 if copy.blocks is None else copy.blocks.apart or 0
    found, inner = {(1, pitch): 1, (apart, 1): 1}, 1
    for extent, step, along in zip(nest.extents, sram.strides, nest.target.strides, strict=True):
        if step < size and step == along:
            inner *= extent
        elif step % size or along % size or (step // size, along // size) not in found:
            raise CompileError(f"{copy.name} does not walk rows as the nest does", field=INSTRUCTIONS)
        else:
            found[step // size, along // size] = extent
    if inner != size:
        raise CompileError(f"the rows are not made of whole elements of {memory.name}", field=INSTRUCTIONS)
    return found[1, pitch], found[apart, 1]


def _pitch(dram: AffineAccess, memory: Memory) -> int:
    """Elements of DRAM from one row to the next, which is the farthest that a loop steps."""
    return max(dram.strides, default=0) // memory.element_count


@dataclass(frozen=True)
class _Rows:
    """Rows of a nest, and the instruction that stores them; ``places`` are of what is stored, summed and written."""

    copy: Copy
    function: RowFunction
    memory: Memory
    row: StoredRow
    places: tuple[AffineAccess, AffineAccess, AffineAccess]
    rows: int
    blocks: int

    def statement(self) -> tirx.Stmt:
        """All groups, and what ends them."""
        together = min(self.rows, self.function.kept)
        group = tirx.Var("group", "int32")
        whole = self.rows // together
        statements = [in_loops([group], [whole], self._group(group * together, together))]
        if self.rows % together:
            statements.append(self._group(tirx.const(self.rows - together, "int32"), together))
        if self.function.ends:
            one = min(self.row.columns, self._most)
            number = tirx.const(self.function.kept - 1, "int32")
            statements.append(self._call(tirx.const(0, "int32"), number, (0, one), self.function.ends, stored=True))
        return tirx.SeqStmt(statements) if len(statements) > 1 else statements[0]

    def _group(self, first: Any, count: int) -> tirx.Stmt:
        """Each pass over all rows of a group, and then their stores."""
        reads = (each == "stored" for each in READS[self.function.function])
        passes = [
            (each.last, each.last | each.before, stored)
            for each, stored in zip(self.function.passes, reads, strict=True)
        ]
        passes.append((self.function.stores, self.function.stores, True))
        statements = []
        for at, (last, before, stored) in enumerate(passes):
            row = tirx.Var("row", "int32")
            width = self.row.columns if at < len(self.function.passes) else self.blocks * self.memory.element_count
            pieces = list(self._pieces(width))
            calls = [
                self._call(first + row, row, piece, last if piece is pieces[-1] else before, stored=stored)
                for piece in pieces
            ]
            statements.append(in_loops([row], [count], tirx.SeqStmt(calls) if len(calls) > 1 else calls[0]))
        return tirx.SeqStmt(statements)

    @property
    def _most(self) -> int:
        """The scalars of a row that one instruction takes."""
        return self.memory.element_count * (1 if self.copy.blocks is None else self.copy.blocks.most)

    def _pieces(self, width: int) -> Iterator[tuple[int, int]]:
        """The first scalar and the size of each piece of a row."""
        for first in range(0, width, self._most):
            yield first, min(width - first, self._most)

    def _call(
        self, row: Any, number: Any, piece: tuple[int, int], numbers: Mapping[str, int], *, stored: bool
    ) -> tirx.Stmt:
        """One instruction: a piece of a row of what is stored, or of what is summed."""
        size, (first, width) = self.memory.element_count, piece
        sram, dram = self.places[0 if stored else 1], self.places[2]
        blocks, fields = self.copy.blocks, self.copy.copy_fields
        assert blocks is not None
        assert fields.rows is not None
        block, pitch = first // size, _pitch(dram, self.memory)
        steps = self.copy.dram_steps(self.memory)
        said: dict[str, Any] = {name: tirx.const(value, "int32") for name, value in numbers.items()}
        said |= dict.fromkeys(self.function.numbers, number)
        for constant, names in self.function.constants.items():
            said |= dict.fromkeys(names, tirx.const(self.row.constants[constant], "int32"))
        said |= {fields.rows: tirx.const(1, "int32"), blocks.scalars: tirx.const(width, "int32")}
        if fields.row_stride is not None:
            said[fields.row_stride] = tirx.const(pitch * self.copy.element_stride(self.memory), "int32")
        places = {
            "sram": (sram, sram.first_element(size) + row + block * (blocks.apart or 0)),
            "dram": (dram, (dram.first_element(size) + row * pitch + block) * steps),
        }
        return copy_call(self.copy, places, said)
