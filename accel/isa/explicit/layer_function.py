"""Function of an instruction as large as a layer: its loops over DRAM, its sums, and zeros outside of its data."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

from tvm import tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import HardwareLoop, Layer
from accel.accelerator.memories import DTYPE_BYTES, DType
from accel.accelerator.semantics import LayerSemantics, Semantics
from accel.expression.element_types import held_as
from accel.expression.loop_builder import Place, build_loops
from accel.isa.explicit.hazards.layer_accesses import extent_field, pitch_of, step_of
from accel.isa.explicit.operations import ExecutedWords
from accel.util.arrays import Int64

Int = Any  # a tirx.Expr of int64; TVM's operators are untyped


def layer_numbers(layer: Layer) -> list[str]:
    """The names of the numbers that an execution takes: extents, addresses, steps and windows, in scalars."""
    found = [f"{loop.extent}" for loop in layer.loops]
    for name, operand in layer.operands.items():
        if operand.dram is None:
            continue
        found.append(f"{name} base")
        found += [f"{name} in {loop.extent}" for loop in layer.loops if name in {**loop.factors, **loop.steps}]
        for window in operand.windows:
            at = f"{name} {window.extent}"
            found += [f"{at} before", f"{at} extent", f"{at} pitch", *(f"{at} over {extent}" for extent in window.over)]
    return found


def layer_values(words: ExecutedWords, layer: Layer) -> dict[str, Int64]:
    """The numbers (m,) of executions by the names of :func:`layer_numbers`."""
    found = {loop.extent: extent_field(words, loop) for loop in layer.loops}
    for name, operand in layer.operands.items():
        if operand.dram is None:
            continue
        memory = words.decoded.accelerator.memory(operand.memory)
        size = DTYPE_BYTES[layer.type_in_dram(name, memory)]
        unit = layer.unit_bytes(name, memory)
        found[f"{name} base"] = words.column(operand.dram) * unit // size
        for loop in layer.loops:
            if name in {**loop.factors, **loop.steps}:
                found[f"{name} in {loop.extent}"] = step_of(words, loop, name) * unit // size
        for window in operand.windows:
            at, element = f"{name} {window.extent}", layer.element_bytes(name, memory)
            found[f"{at} before"] = words.column(window.before)
            found[f"{at} extent"] = words.column(window.extent)
            found[f"{at} pitch"] = pitch_of(words, window, element // unit) * unit // size
            found |= {f"{at} over {extent}": words.column(field) for extent, field in window.over.items()}
    return found


class LayerStatement:
    """One execution of a layer as TIR; ``read`` gives a number by its name, ``drams`` are buffers by their types."""

    def __init__(
        self,
        meaning: LayerSemantics,
        accelerator: Accelerator,
        read: Callable[[str], Int],
        scalars: Mapping[str, Int],
        drams: Mapping[DType, Any],
        tables: Mapping[str, Any],
    ) -> None:
        self.meaning, self.layer, self.drams = meaning, meaning.instruction, drams
        self.accelerator, self.scalars, self.tables = accelerator, scalars, tables
        self.numbers = {name: read(name) for name in layer_numbers(self.layer)}
        self.variables = {loop.extent: tirx.Var(loop.extent, "int64") for loop in self.layer.loops}
        self.buffers: list[Any] = []

    def body(self) -> tirx.Stmt:
        """Loops in which the result steps, around the sums' beginning, the other loops, and their end."""
        meaning = self.meaning
        element = self._element()
        sums = None if meaning.sums is None else self._on_chip(meaning.sums, "sums")
        if sums is None:
            made = self._around(list(self.layer.loops), self._guarded(meaning.does, {}, element))
        else:
            assert meaning.begins is not None
            assert meaning.ends is not None
            assert meaning.sums is not None
            place = {meaning.sums: Place(sums, tirx.const(0, "int64"))}
            summed = [loop for loop in self.layer.loops if meaning.sums_over(loop)]
            steps = [
                self._guarded(meaning.begins, place, element),
                self._around(summed, self._guarded(meaning.does, place, element)),
                self._guarded(meaning.ends, place, element),
            ]
            made = self._around([loop for loop in self.layer.loops if loop not in summed], tirx.SeqStmt(steps))
        begun = [tirx.AllocBuffer(buffer) for buffer in self.buffers]
        return tirx.SeqStmt([*begun, made]) if begun else made

    def _on_chip(self, name: str, label: str) -> Any:
        memory = self.accelerator.memory(self.layer.operands[name].memory)
        dtype = self.layer.type_in_dram(name, memory)
        self.buffers.append(tirx.decl_buffer((memory.element_count,), held_as(dtype), label, scope="local"))
        return self.buffers[-1]

    def _element(self) -> Any:
        """Room for an element of the operand that has windows."""
        name = next((name for name, operand in self.layer.operands.items() if operand.windows), None)
        return None if name is None else self._on_chip(name, "element")

    def _around(self, loops: list[HardwareLoop], body: tirx.Stmt) -> tirx.Stmt:
        for loop in reversed(loops):
            zero = tirx.const(0, "int64")
            body = tirx.For(self.variables[loop.extent], zero, self.numbers[loop.extent], tirx.ForKind.SERIAL, body)
        return body

    def _guarded(self, meaning: Semantics, places: Mapping[str, Place], element: Any) -> tirx.Stmt:
        """A statement at one point; an operand with windows is taken first, as zeros where it is outside."""
        found, taken = dict(places), list[tirx.Stmt]()
        for name in meaning.typed.tensors:
            if name not in found:
                index, bounds = self._index(name)
                dtype = self.layer.type_in_dram(name, self.accelerator.memory(self.layer.operands[name].memory))
                found[name] = Place(self.drams[dtype], index)
                if bounds:
                    taken.append(_taken(element, self.drams[dtype], index, bounds))
                    found[name] = Place(element, tirx.const(0, "int64"))
        scalars = {name: self.scalars[name] for name in meaning.typed.scalars}
        made = build_loops(meaning.typed, found, scalars, self.tables)
        return tirx.SeqStmt([*taken, made]) if taken else made

    def _index(self, name: str) -> tuple[Int, list[Int]]:
        """The first scalar of an operand's element, and what holds where it is in DRAM."""
        index, bounds = self.numbers[f"{name} base"], []
        for loop in self.layer.loops:
            if f"{name} in {loop.extent}" in self.numbers:
                index = index + self.variables[loop.extent] * self.numbers[f"{name} in {loop.extent}"]
        for window in self.layer.operands[name].windows:
            at = f"{name} {window.extent}"
            position = -self.numbers[f"{at} before"]
            for extent in window.over:
                position = position + self.variables[extent] * self.numbers[f"{at} over {extent}"]
            bounds += [position >= 0, position < self.numbers[f"{at} extent"]]
            index = index + position * self.numbers[f"{at} pitch"]
        return index, bounds


def _taken(element: Any, dram: Any, first: Int, bounds: list[Int]) -> tirx.Stmt:
    """Scalars from ``first`` on where all of ``bounds`` hold, else zeros."""
    zero, count = tirx.const(0, "int64"), math.prod(int(extent) for extent in element.shape)

    def filled(value: Callable[[Any], Any]) -> tirx.Stmt:
        at = tirx.Var("at", "int64")
        store = tirx.BufferStore(element, value(at), [at])
        return tirx.For(at, zero, tirx.const(count, "int64"), tirx.ForKind.SERIAL, store)

    inside = filled(lambda at: tirx.BufferLoad(dram, [first + at]))
    outside = filled(lambda _at: tirx.const(0, element.dtype))
    return tirx.IfThenElse(functools.reduce(tirx.And, bounds), inside, outside)
