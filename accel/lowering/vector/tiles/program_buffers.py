"""Buffers of a vector program: what it does, uncut, and which of its tensors share a place on the chip.

A load may come into a buffer that the same tile has used before. It waits for that then, and as a unit loads in order
so do the loads of the next tile: units take turns. With a buffer of its own it waits for nothing of its tile.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from accel.expression.syntax_tree import Access, Binary, Statement
from accel.region.vector_program import UNIT, Stream, VectorProgram, VectorTensor, loaded_once

_ANOTHER = "_"  # between the name of a buffer and the number of another one of it


@dataclass(frozen=True)
class Statements:
    """What a program does, uncut: statements over tensors, of which ``operands`` and ``results`` lie in DRAM.

    ``stream``: those of them that are done block by block.
    """

    extents: tuple[int, ...]
    tensors: Mapping[str, VectorTensor]
    operands: tuple[str, ...]
    results: tuple[str, ...]
    statements: tuple[Statement, ...]
    stream: Stream | None = None

    @property
    def is_priced(self) -> bool:
        """Whether what it moves depends on its tiles so much that these are priced: products, and blocks."""
        return self.stream is not None or any(map(sums_products, self.statements))

    @property
    def rows(self) -> tuple[int, ...]:
        """The axes along which the program can be cut, outermost first: those of all results, none of it reduced."""
        reduced = {int(axis[1:]) for statement in self.statements for axis in statement.reduced}
        common = [axis for axis in self.tensors[self.results[0]].axes if axis != UNIT and axis not in reduced]
        return tuple(axis for axis in common if all(axis in self.tensors[name].axes for name in self.results))


def sums_products(statement: Statement) -> bool:
    """Returns whether a statement sums products of two tensors."""
    value = statement.value
    if statement.combiner != "+" or not isinstance(value, Binary) or value.operator != "*":
        return False
    return isinstance(value.left, Access) and isinstance(value.right, Access)


def placed(whole: Statements, cut: tuple[int, ...]) -> VectorProgram:
    """Returns the program with tiles of one element along ``cut``.

    Its tensors share buffers if they are not needed at once.
    """
    once = loaded_once(whole.statements, whole.tensors, cut)
    buffers = _Buffers(whole, once)
    statements = [buffers.placed(number, statement) for number, statement in enumerate(whole.statements)]
    dram = [whole.tensors[name] for name in (*whole.operands, *whole.results)]
    return VectorProgram(
        extents=whole.extents,
        tile=tuple(1 if axis in cut else extent for axis, extent in enumerate(whole.extents)),
        tensors=(*dram, *buffers.made.values()),
        results=len(whole.results),
        statements=tuple(map(str, statements)),
        contexts=2 if cut else 1,
        stream=whole.stream,
    )


def placed_alike(whole: Statements, known: VectorProgram) -> VectorProgram:
    """Returns a program that differs from a known one in numbers alone, in the same tiles and buffers."""
    made = placed(whole, known.cut)
    statements = (loads_apart(made) if has_loads_apart(known) else made).statements
    return replace(known, statements=statements)


def has_loads_apart(program: VectorProgram) -> bool:
    """Returns whether loads of a program have buffers of their own, by :func:`loads_apart`."""
    return any(_ANOTHER in tensor.name for tensor in program.on_chip)


def loads_apart(program: VectorProgram) -> VectorProgram:
    """Returns a program each of whose loads comes into a buffer that its tile has not used before.

    What follows goes on there. A program with a stream, and one whose loads do so, are returned as they are.
    """
    if program.stream is not None:
        return program
    names: dict[str, str] = {}
    used, tensors, statements = set[str](), list(program.tensors), list[Statement]()
    for statement in program.parsed:
        target = statement.target.name
        loads = program.tensor(target).memory and any(not program.tensor(name).memory for name in statement.operands)
        if loads and not statement.updates and target in used:
            names[target] = f"{target}{_ANOTHER}{len(tensors)}"
            tensors.append(replace(program.tensor(target), name=names[target]))
        used.update((target, *statement.operands))
        statements.append(renamed(statement, names))
    if not names:
        return program
    return replace(program, tensors=tuple(tensors), statements=tuple(map(str, statements)))


def loads_together(program: VectorProgram) -> VectorProgram:
    """Returns a program whose loads come into the buffers that they had before :func:`loads_apart`."""
    names = {tensor.name: tensor.name.partition(_ANOTHER)[0] for tensor in program.on_chip}
    kept = tuple(tensor for tensor in program.tensors if names.get(tensor.name, tensor.name) == tensor.name)
    if len(kept) == len(program.tensors):
        return program
    return replace(
        program, tensors=kept, statements=tuple(str(renamed(statement, names)) for statement in program.parsed)
    )


def ways_to_load(program: VectorProgram) -> Iterator[VectorProgram]:
    """Yields a program whose loads come into buffers that have been used, then one whose loads do not.

    Of each the one in which all tiles share what they have in common comes first, then that whose tiles load it again.
    """
    together = replace(loads_together(program), loads_again=False)
    apart = loads_apart(together)
    for way in (together,) if apart is together else (together, apart):
        yield way
        if way.shared and way.stream is None:
            yield replace(way, loads_again=True)


class _Buffers:
    """Buffers that tensors take in the order of statements, and give back behind the last that reads them.

    What lies there as blocks begin, and is used by them, is kept until behind the last; and what blocks give back
    serves them alone.
    """

    def __init__(self, whole: Statements, once: frozenset[str]) -> None:
        self._whole, self._once = whole, once
        self._last = {
            name: number
            for number, statement in enumerate(whole.statements)
            for name in (statement.target.name, *statement.operands)
        }
        self.made: dict[str, VectorTensor] = {}
        self._names: dict[str, str] = {}
        self._free: list[VectorTensor] = []
        if whole.stream is not None:
            ahead = {statement.target.name for statement in whole.statements[: whole.stream.first]}
            for name in ahead:
                if whole.stream.first <= self._last[name] < whole.stream.last:
                    self._last[name] = len(whole.statements)

    def placed(self, number: int, statement: Statement) -> Statement:
        """A statement over buffers."""
        if self._whole.stream is not None and number in (self._whole.stream.first, self._whole.stream.last):
            self._free.clear()
        target, over = statement.target.name, []
        for name in statement.operands:
            over += [name] if self._last[name] == number and name in self._names and name not in self._once else []
        elementwise = statement.combiner is None and not statement.reduced
        if elementwise:
            self._give(over, statement)
        if target not in self._names and self._whole.tensors[target].memory:
            self._take(target)
        placed = renamed(statement, self._names)
        if not elementwise:
            self._give(over, statement)
        return placed

    def _give(self, names: Sequence[str], statement: Statement) -> None:
        for name in names:
            if name != statement.target.name:
                self._free.append(self.made[self._names[name]])

    def _take(self, name: str) -> None:
        tensor = self._whole.tensors[name]
        alike = [each for each in self._free if (each.axes, each.memory) == (tensor.axes, tensor.memory)]
        if alike and name not in self._once:
            self._free.remove(alike[-1])
            self._names[name] = alike[-1].name
            return
        buffer = replace(tensor, name=f"b{len(self.made)}")
        self.made[buffer.name] = buffer
        self._names[name] = buffer.name


def renamed(statement: Statement, names: Mapping[str, str]) -> Statement:
    """Returns a statement over tensors of other names."""
    return statement.with_accesses(lambda access: replace(access, name=names.get(access.name, access.name)))
