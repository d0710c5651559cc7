"""What any document of the family ``explicit`` computes, in plain numpy: one word after the other, element by element.

Written from docs/accelerators.md and docs/expressions.md, sharing no code with the engine but the parser of statements.
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import BitField, Compute, Copy, Instruction
from accel.accelerator.memories import Memory
from accel.expression.element_types import TensorType
from accel.expression.parser import parse_statement
from accel.expression.typecheck import Typed, check_statement
from tests.reference.statements import HELD, convert, run

Fields = dict[str, int]
_SCALARS = {"unsigned": "int32", "signed": "int32", "float32": "float32"}


class DocumentMachine:
    """The memories of a document, and DRAM, as bytes. It has no sequences, layers, micro-ops or tables."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.memories = {memory.name: memory for memory in accelerator.memories}
        self.bytes = {
            memory.name: np.zeros(memory.depth * _bytes_of(memory), np.uint8)
            for memory in accelerator.memories
            if memory.view_of is None
        }
        self._statements: dict[tuple[str, str], Typed] = {}

    def contents(self, name: str) -> np.ndarray:
        """All elements of a memory, (depth, *element)."""
        memory = self.memories[name]
        held = self.bytes[memory.view_of or name].view(HELD.get(memory.dtype, memory.dtype))
        return held.reshape(memory.depth, *memory.shape)

    def run(self, words: np.ndarray, dram: np.ndarray) -> None:
        """Executes words (n, word_bits / 64) on ``dram`` (bytes,)."""
        for row in words.tolist():
            word = sum(part << 64 * at for at, part in enumerate(row))
            instruction = next(each for each in self.accelerator.instructions if _is(each, word))
            assert not instruction.sequence
            fields = {field.name: _value(field, word) for field in instruction.fields}
            if isinstance(instruction, Copy):
                self._copy(instruction, fields, dram)
            elif isinstance(instruction, Compute):
                self._compute(instruction, fields)

    def _copy(self, copy: Copy, fields: Fields, dram: np.ndarray) -> None:
        def of(name: str | None, otherwise: int) -> int:
            return otherwise if name is None else fields[name]

        names, memory = copy.copy_fields, self.memories[copy.memory]
        scalar = np.dtype(copy.dram_dtype).itemsize
        size = math.prod(memory.shape) * scalar
        unit = 1 if copy.dram_unit == "byte" else size
        rows, columns = of(names.rows, 1), of(names.columns, 1)
        top, left = of(names.pad_top, 0), of(names.pad_left, 0)
        height, width = top + rows + of(names.pad_bottom, 0), left + columns + of(names.pad_right, 0)
        if rows * columns == 0:
            return
        behind, steps = height * width, list[tuple[int, int, int]]()
        for dimension in reversed(copy.dimensions):  # without a stride one lies behind the other
            extent = fields[dimension.extent]
            apart = of(dimension.sram_stride, behind)
            steps.insert(0, (extent, fields[dimension.dram_stride], apart))
            behind *= extent
        chip = self.contents(copy.memory)
        for point in itertools.product(*(range(extent) for extent, _, _ in steps)):
            at = fields[names.sram] + sum(i * apart for i, (_, _, apart) in zip(point, steps, strict=True))
            begin = fields[names.dram] + sum(i * stride for i, (_, stride, _) in zip(point, steps, strict=True))
            for y, x in itertools.product(range(height), range(width)):
                element = at + y * width + x
                if not (top <= y < top + rows and left <= x < left + columns):
                    chip[element] = 0
                    continue
                first = (begin + (y - top) * of(names.row_stride, 0)) * unit + (x - left) * size
                if names.row_stride is None:
                    first += (y - top) * unit
                there = dram[first : first + size].view(copy.dram_dtype).reshape(memory.shape)
                self._moved(copy, fields, there, chip[element : element + 1].reshape(memory.shape))

    def _moved(self, copy: Copy, fields: Fields, dram: np.ndarray, sram: np.ndarray) -> None:
        """One element; both are views, of which one is written."""
        loads = copy.direction == "load"
        target, source = (sram, dram) if loads else (dram, sram)
        if not copy.operations:
            to = self.memories[copy.memory].dtype if loads else copy.dram_dtype
            target[...] = convert(source, to) if source.dtype != target.dtype else source
            return
        beside = {
            name: self.contents(operand.memory)[fields[str(operand.address)]] for name, operand in copy.operands.items()
        }
        types = {name: self.memories[operand.memory] for name, operand in copy.operands.items()}
        memory = self.memories[copy.memory]
        tensors = {
            "dram": TensorType(copy.dram_dtype, memory.shape),
            "sram": TensorType(memory.dtype, memory.shape),
        } | {name: TensorType(each.dtype, each.shape) for name, each in types.items()}
        target[...] = self._done(copy, fields, tensors, {"dram": dram, "sram": sram} | beside)

    def _compute(self, compute: Compute, fields: Fields) -> None:
        extents = [range(fields[loop.extent]) for loop in compute.loops]
        for point in itertools.product(*extents):
            views, tensors = {}, {}
            for name, operand in compute.operands.items():
                memory = self.memories[operand.memory]
                shape = operand.shape or memory.shape
                at = fields[str(operand.address)]
                for i, loop in zip(point, compute.loops, strict=True):
                    at += i * (fields[loop.factors[name]] if name in loop.factors else loop.steps.get(name, 0))
                count = math.prod(shape) // math.prod(memory.shape)
                views[name] = self.contents(operand.memory)[at : at + count]
                tensors[name] = TensorType(memory.dtype, shape)
            used = self._typed(compute, fields, tensors).tensors
            values = {name: view.reshape(tensors[name].shape) for name, view in views.items() if name in used}
            target = self._typed(compute, fields, tensors).statement.target.name
            values[target][...] = self._done(compute, fields, tensors, values)

    def _typed(self, instruction: Copy | Compute, fields: Fields, tensors: dict[str, TensorType]) -> Typed:
        operation = next(
            each for each in instruction.operations if all(fields[name] == value for name, value in each.when.items())
        )
        key = instruction.name, operation.name
        if key not in self._statements:
            statement = parse_statement(operation.does)
            types = {field.name: _SCALARS[field.type] for field in instruction.fields}
            scalars = {name: types[name] for name in statement.scalars}
            self._statements[key] = check_statement(statement, tensors, scalars, {})
        return self._statements[key]

    def _done(
        self, instruction: Copy | Compute, fields: Fields, tensors: dict[str, TensorType], values: dict[str, np.ndarray]
    ) -> np.ndarray:
        typed = self._typed(instruction, fields, tensors)
        scalars = {
            name: float(np.uint32(fields[name]).view(np.float32)) if kind == "float32" else fields[name]
            for name, kind in typed.scalars.items()
        }
        return run(typed, {name: each.copy() for name, each in values.items()}, scalars)


def _bytes_of(memory: Memory) -> int:
    return math.prod(memory.shape) * np.dtype(HELD.get(memory.dtype, memory.dtype)).itemsize


def _constants(instruction: Instruction) -> Iterator[BitField]:
    return (field for field in instruction.fields if field.value is not None)


def _is(instruction: Instruction, word: int) -> bool:
    return all(word >> field.lsb & (1 << field.bits) - 1 == field.value for field in _constants(instruction))


def _value(field: BitField, word: int) -> int:
    bits = word >> field.lsb & (1 << field.bits) - 1
    signed = field.type == "signed" and field.bits and bits >> field.bits - 1
    return bits - (1 << field.bits) if signed else bits
