"""Matching of layers: which operation does a whole nest, statement by statement, and then loop by loop."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm_ffi import structural_equal

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import HardwareLoop
from accel.accelerator.semantics import LayerSemantics, scalar_field
from accel.accelerator.target import Target
from accel.errors import CompileError
from accel.expression.tir_terms import same_place
from accel.lowering.inject.compute_injection import inner_strides, outer_axes
from accel.lowering.inject.layer_nest import (
    Guard,
    WindowBound,
    outermost_loop,
    stores_of_nest,
    unguarded,
    window_bounds,
)
from accel.lowering.inject.layer_windows import LayerLoop, WindowFields
from accel.lowering.inject.operation_matching import OperationMatch, StoreForm, matching_operations, nearest_mismatch
from accel.lowering.ir.affine_nest import AffineAccess, AffineNest, simplify
from accel.lowering.ir.document_paths import INSTRUCTIONS
from accel.lowering.ir.layer_numbers import layer_numbers, number_of_cost

_ZERO = tirx.const(0, "int32")
_MOST_WAYS = 256  # to tell loops from each other that are looked at
_FINEST = 8  # strides and dilations beyond are not looked for


@dataclass(frozen=True)
class LayerMatch:
    """A layer's operation that does a nest: where its operands begin, which loop is which, and its numbers.

    ``loops`` are the loops of the nest by the extent of the instruction's own; those of the others are None.
    """

    meaning: LayerSemantics
    bases: dict[str, AffineAccess]
    loops: dict[str, LayerLoop | None]
    fields: dict[str, Any]


def match_within(
    statement: tirx.Stmt, known: Sequence[LayerSemantics], target: Target
) -> tuple[list[tuple[tirx.Var, int]], LayerMatch]:
    """The loops around that no instruction makes, the fewest, with their extents; and what is matched inside.

    Raises:
        CompileError: nothing is; the message says what stands against the whole.
    """
    around: list[tuple[tirx.Var, int]] = []
    first: CompileError | None = None
    stores: _Stores | None = None
    while True:
        try:
            stores = stores or _Stores.of(statement)
            return around, _match(stores, known, target)
        except CompileError as error:
            first = first or error
        loop = outermost_loop(statement)
        if loop is None:
            raise first
        around.append((loop.loop_var, int(loop.extent)))
        statement = loop.body
        stores = stores and stores.within(loop)


@dataclass(frozen=True)
class _Stores:
    """What is stored in a nest, statement by statement, and the conditions under which something is read there.

    ``matched`` is what operations make of them, which is the same whatever loops are around.
    """

    nests: Sequence[AffineNest]
    guards: Sequence[Sequence[Guard]]
    matched: "_Matched"

    @classmethod
    def of(cls, statement: tirx.Stmt) -> "_Stores":
        """The stores of a nest.

        Raises:
            CompileError: it has something else than loops around stores.
        """
        leaves = list(stores_of_nest(statement, (), {}))
        found = [unguarded(leaf.store) for leaf in leaves]
        nests = [
            AffineNest(leaf.variables, leaf.extents, store) for leaf, (store, _) in zip(leaves, found, strict=True)
        ]
        return cls(nests, [guards for _, guards in found], _Matched([StoreForm.of(nest.store) for nest in nests]))

    def within(self, loop: tirx.For) -> "_Stores | None":
        """The same stores in the body of the outermost loop; None if that runs once: then they are other ones."""
        if int(loop.extent) == 1:
            return None
        inside = [AffineNest(nest.variables[1:], nest.extents[1:], nest.store) for nest in self.nests]
        return _Stores(inside, self.guards, self.matched)


class _Matched:
    """What is stored in a nest, but for where it lies, and the ways in which operations of a layer do it."""

    def __init__(self, forms: Sequence[StoreForm]) -> None:
        self._forms = forms
        self._ways: dict[int, tuple[list[list[OperationMatch]], list[str]]] = {}

    def ways(self, meaning: LayerSemantics, target: Target) -> tuple[list[list[OperationMatch]], list[str]]:
        """The ways to do each statement, and why operations do not; asked once."""
        if id(meaning) not in self._ways:
            misfits: list[str] = []
            found = [
                list(matching_operations(form, [each], target, misfits))
                for form, each in zip(self._forms, meaning.statements, strict=True)
            ]
            self._ways[id(meaning)] = found, misfits
        return self._ways[id(meaning)]


def _match(stores: _Stores, known: Sequence[LayerSemantics], target: Target) -> LayerMatch:
    """How the first operation of ``known`` that does what a nest does does it, whatever its fields can hold.

    Where a loop of the nest can be one or another of the instruction's, the way is taken that uses least on the chip,
    and then the one whose windows are the smallest.

    Raises:
        CompileError: none does; the message says what stands against the one that comes nearest.
    """
    nests, misfits = stores.nests, list[str]()
    for meaning in known:
        if len(meaning.statements) != len(nests):
            continue
        ways, why = stores.matched.ways(meaning, target)
        misfits += why
        for matches in itertools.product(*ways):
            try:
                made = _Matching(meaning, nests, matches, stores.guards, target.accelerator).ways()
                return made[0] if len(made) == 1 else min(made, key=lambda way: _demands(way, target.accelerator))
            except CompileError as error:
                misfits.append(error.detail)
    if not any(len(meaning.statements) == len(nests) for meaning in known):
        raise OtherStatementsError(len(nests), known)
    raise CompileError(f"no instruction does this nest: {_why(nests, known, misfits, target)}", field=INSTRUCTIONS)


class OtherStatementsError(CompileError):
    """A nest has more or fewer statements than what an instruction does: it is not meant for it."""

    def __init__(self, count: int, known: Sequence[LayerSemantics]) -> None:
        counts = dict.fromkeys(f"{meaning.instruction.name} has {len(meaning.statements)}" for meaning in known)
        has = f"no instruction does this nest: it has {count} statements, and {', '.join(counts) or 'none answers'}"
        super().__init__(has, field=INSTRUCTIONS)


def _demands(match: LayerMatch, accelerator: Accelerator) -> tuple[float, float]:
    """Bytes on the chip that a match needs, and positions of its windows.

    Neither depths of memories nor costs count: instructions are kept for documents that differ in these. A use that
    names a memory is what it would be of an empty one.
    """
    layer = match.meaning.instruction
    numbers = layer_numbers(layer, match.fields)
    used = [
        float(number_of_cost(text, layer, numbers, accelerator)) * accelerator.memory(memory).element_bytes
        for memory, text in layer.uses.items()
    ]
    windows = (window for operand in layer.operands.values() for window in operand.windows)
    return sum(used), sum(numbers[window.extent] for window in windows)


def _why(nests: Sequence[AffineNest], known: Sequence[LayerSemantics], misfits: Sequence[str], target: Target) -> str:
    if misfits:
        return misfits[0]
    for meaning in known:
        if len(meaning.statements) != len(nests):
            continue
        for nest, each in zip(nests, meaning.statements, strict=True):
            why = nearest_mismatch(nest.store, [each], target)
            if next(matching_operations(nest.store, [each], target), None) is None and why:
                return why
    return "its loops are others"


class _Matching:
    """One way in which an operation could do a nest, until it is shown that it does."""

    def __init__(
        self,
        meaning: LayerSemantics,
        nests: Sequence[AffineNest],
        matches: Sequence[OperationMatch],
        guards: Sequence[Sequence[Guard]],
        accelerator: Accelerator,
    ) -> None:
        self.meaning, self.layer, self.accelerator = meaning, meaning.instruction, accelerator
        self.nests, self.matches = nests, matches
        self.bases: dict[str, AffineAccess] = {}
        self.fields: dict[str, Any] = {
            name: tirx.const(value, "int32") for name, value in meaning.operation.when.items()
        }
        self.bounds: dict[str, list[WindowBound]] = {}
        self._take_scalars()
        self.loops = self._loops()
        self._take_guards(guards)

    def ways(self) -> list[LayerMatch]:
        """The matches, by each way to tell the loops of the nest from each other that the operands allow.

        Raises:
            CompileError: there is none.
        """
        why, found = "", list[LayerMatch]()
        for assigned in itertools.islice(self._assignments(list(reversed(self.loops)), {}), _MOST_WAYS):
            for finer in range(1, 1 + self._finest):
                try:
                    fields = self._fields_of(assigned, finer)
                except CompileError as error:
                    why = why or error.detail
                    continue
                every = {loop.extent: assigned.get(loop.extent) for loop in self.layer.loops}
                bases = {name: self._base(name, fields) for name in self.bases}
                numbers = {name: value for name, value in fields.items() if not name.startswith("&")}
                found.append(LayerMatch(self.meaning, bases, every, self.fields | numbers))
                break
        if not found:
            raise CompileError(why or self._unlike(), field=INSTRUCTIONS)
        return found

    @property
    def _finest(self) -> int:
        """Into how many positions what lies between two elements that a kernel meets is cut at most.

        It matters where other steps follow from it.
        """
        return _FINEST if any(loop.follows for loop in self.layer.loops) else 1

    def _unlike(self) -> str:
        stepping = [(loop, ", ".join(name for name, step in loop.steps.items() if step)) for loop in self.loops]
        steps = "; ".join(f"{loop.variable.name} of {loop.extent} steps {names}" for loop, names in stepping)
        return f"{self.layer.name} has no loops like those of the nest: {steps}"

    def _take_scalars(self) -> None:
        for match in self.matches:
            for name, value in match.scalars.items():
                whole = scalar_field(self.accelerator, self.layer, name)
                if whole in self.fields and not structural_equal(self.fields[whole], value):
                    raise CompileError(f"{self.layer.name} has one {name}, and the nest two", field=INSTRUCTIONS)
                self.fields[whole] = value

    def _loops(self) -> list[LayerLoop]:
        """The loops around all statements, and those of the sum, with the steps of all operands in them."""
        common = [v for v in self.nests[0].variables if all(v in nest.variables for nest in self.nests)]
        found: dict[tirx.Var, LayerLoop] = {}
        chip = self.meaning.sums
        for nest, match in zip(self.nests, self.matches, strict=True):
            accesses = _accesses(nest, match)
            pitches = self._pitches(nest, match, accesses)
            for axis in outer_axes(nest, match.meaning, accesses, self.accelerator, {}, pitches):
                assert axis.variable is not None
                steps = dict(zip(accesses, axis.strides, strict=True))
                if steps.pop(chip or "", 0):
                    raise CompileError(f"{chip} of {self.layer.name} is one element", field=INSTRUCTIONS)
                summed = axis.variable not in common
                if summed and match.meaning is not self.meaning.does:
                    outside = f"{match.meaning.typed.statement} is in a loop of its own"
                    raise CompileError(f"{self.layer.name}: {outside}", field=INSTRUCTIONS)
                known = found.setdefault(axis.variable, LayerLoop(axis.variable, axis.extent, summed))
                if known.extent != axis.extent:
                    raise CompileError(f"{self.layer.name} cuts a loop", field=INSTRUCTIONS)
                for name, step in steps.items():
                    if known.steps.setdefault(name, step) != step:
                        raise CompileError(f"{name} of {self.layer.name} is in two places", field=INSTRUCTIONS)
            for name, access in accesses.items():
                if name != chip:
                    self._take_base(name, access)
        return list(found.values())

    def _pitches(self, nest: AffineNest, match: OperationMatch, accesses: Mapping[str, AffineAccess]) -> dict[str, int]:
        """Scalars from one element of an operand to the next, where a field says how far apart they lie."""
        found = {}
        for name in accesses:
            operand = self.layer.operands[name]
            if operand.pitch is None or operand.shape is None:
                continue
            memory = self.accelerator.memory(operand.memory)
            found[name] = pitch = _pitch_of(name, nest, match, accesses) or memory.element_count
            unit = self.layer.unit_bytes(name, memory)
            scalar = self.layer.element_bytes(name, memory) // memory.element_count
            if pitch * scalar % unit:
                raise CompileError(f"{name} of {self.layer.name} does not lie in whole elements", field=INSTRUCTIONS)
            self.fields[operand.pitch] = tirx.const(pitch * scalar // unit, "int32")
        return found

    def _take_base(self, name: str, access: AffineAccess) -> None:
        size = self.accelerator.memory(self.layer.operands[name].memory).element_count
        base = access.first_element(size)
        known = self.bases.setdefault(name, AffineAccess(access.buffer, access.strides, base))
        if not known.buffer.same_as(access.buffer) or not structural_equal(known.base, base):
            raise CompileError(f"{name} of {self.layer.name} is in two places", field=INSTRUCTIONS)

    def _take_guards(self, guards: Sequence[Sequence[Guard]]) -> None:
        for nest, match, found in zip(self.nests, self.matches, guards, strict=True):
            for load, condition in found:
                name = next(name for name, other in match.operands.items() if same_place(other, load))
                if not self.layer.operands[name].windows:
                    raise CompileError(f"{name} of {self.layer.name} is not padded", field=INSTRUCTIONS)
                self.bounds[name] = window_bounds(nest, condition)

    def _assignments(self, left: list[LayerLoop], taken: dict[str, LayerLoop]) -> Iterator[dict[str, LayerLoop]]:
        """Every way to give each loop of the nest one of the instruction's, the innermost first."""
        if not left:
            yield taken
            return
        for loop in reversed(self.layer.loops):
            if loop.extent not in taken and self._steps_alike(left[0], loop):
                yield from self._assignments(left[1:], {**taken, loop.extent: left[0]})

    def _steps_alike(self, mine: LayerLoop, loop: HardwareLoop) -> bool:
        if self.meaning.sums is not None and mine.summed != self.meaning.sums_over(loop):
            return False
        for name in self.bases:
            step = mine.steps.get(name, 0) * self._units(name)
            moved = any(loop.extent in window.over for window in self.layer.operands[name].windows)
            if name in loop.steps and step != loop.steps[name]:
                return False
            if step and not moved and not loop.moves(name):
                return False
        return True

    def _units(self, name: str) -> int:
        """Units of addresses in an element of an operand."""
        memory = self.accelerator.memory(self.layer.operands[name].memory)
        return self.layer.element_bytes(name, memory) // self.layer.unit_bytes(name, memory)

    def _fields_of(self, assigned: Mapping[str, LayerLoop], finer: int) -> dict[str, Any]:
        """The fields of loops and windows; ``&X`` is what a window moves the first address of X by, elements."""
        found: dict[str, Any] = {}
        for loop in self.layer.loops:
            mine = assigned.get(loop.extent)
            extent = tirx.const(1 if mine is None else mine.extent, "int32")
            found |= dict.fromkeys((loop.extent, *loop.repeated_in), extent)
            for name, factor in loop.factors.items():
                step = 0 if mine is None else mine.steps.get(name, 0) * self._units(name)
                found[factor] = tirx.const(step, "int32")
        for name in self.layer.operands:
            bounds = self.bounds.get(name, [])
            found |= WindowFields(name, self.layer, self._units(name), finer).of(assigned, bounds)
        self._check_following(assigned, self.fields | found)
        return found

    def _check_following(self, assigned: Mapping[str, LayerLoop], fields: Mapping[str, Any]) -> None:
        """Refuses a way in which an operand steps otherwise than follows from the fields, or what follows is broken."""
        numbers = layer_numbers(self.layer, fields)
        for field_name, text in self.layer.follows.items():
            value = float(number_of_cost(text, self.layer, numbers, self.accelerator))
            if not value.is_integer() and self.accelerator.field(self.layer, field_name).type != "float32":
                broken = f"{field_name} of {self.layer.name} would be {text}, which is no integer"
                raise CompileError(broken, field=INSTRUCTIONS)
        for loop in self.layer.loops:
            mine = assigned.get(loop.extent)
            for name, text in loop.follows.items() if mine is not None else ():
                wanted = float(number_of_cost(text, self.layer, numbers, self.accelerator))
                if name in self.bases and mine is not None and mine.steps.get(name, 0) * self._units(name) != wanted:
                    other = f"{name} of {self.layer.name} does not step by {text} in the loop of {loop.extent}"
                    raise CompileError(other, field=INSTRUCTIONS)

    def _base(self, name: str, fields: Mapping[str, Any]) -> AffineAccess:
        """Where an operand begins: behind the zeros before it."""
        access = self.bases[name]
        base = access.base
        for window in self.layer.operands[name].windows:
            base = base + fields[f"&{name}.{window.extent}"]
        return AffineAccess(access.buffer, access.strides, simplify(base))


def _pitch_of(name: str, nest: AffineNest, match: OperationMatch, accesses: Mapping[str, AffineAccess]) -> int | None:
    """Scalars that an operand steps by in the loop that walks its elements; None where none does alone."""
    typed = match.meaning.typed
    access = next(each for each in typed.statement.accesses if each.name == name)
    axis = access.indices[0]
    others = {other: inner_strides(other, match.meaning, {}).get(str(axis), 0) for other in accesses if other != name}
    found = {
        accesses[name].strides[at]
        for at, extent in enumerate(nest.extents)
        if extent == typed.tensors[name].shape[0]
        and all(accesses[other].strides[at] == stride for other, stride in others.items())
    }
    return found.pop() if len(found) == 1 else None


def _accesses(nest: AffineNest, match: OperationMatch) -> dict[str, AffineAccess]:
    found = {match.meaning.typed.statement.target.name: nest.target}
    for name, load in match.operands.items():
        found.setdefault(name, nest.access(load.source, load.indices))
    return found
