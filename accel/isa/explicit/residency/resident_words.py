"""Instructions of a row of launches with results that stay: direct moves for stores, and readers of what they leave."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from accel.accelerator.field_bits import fits_field, put_bits
from accel.accelerator.instructions import Copy, Instruction
from accel.accelerator.shared_bytes import cells_of
from accel.isa.decode import Decoded, encoding_arrays
from accel.isa.explicit.operations import InstructionOperation
from accel.isa.explicit.residency.direct_moves import DirectMove, direct_moves
from accel.isa.explicit.residency.point_loops import LoopShapes, fields_of, has_own_fields
from accel.isa.explicit.residency.result_flow import CopyShape, ResultFlow, RowFlow, row_flow
from accel.isa.explicit.residency.scratchpad_places import TensorPlace, free_place, smallest_place
from accel.isa.family import DramTensor, ResidentRow, ResidentTensor
from accel.util.arrays import Int64, Words

_MOST = 64  # executions that an instruction may become


class DoesNotFitError(Exception):
    """A field cannot hold what a tensor that stays asks of it, or loops make its points in too many executions."""


@dataclass(frozen=True)
class _Staying:
    """A result that stays, and where in the memory."""

    number: int
    row: RowFlow
    flow: ResultFlow
    place: TensorPlace

    @property
    def taken(self) -> tuple[int, int, int, int]:
        """From which instruction to which it takes which elements of the memory."""
        return *self.flow.span, self.place.address, self.place.address + self.place.size


class ExplicitResidency:
    """The results of a row of launches that can stay, each in the first memory that it can stay in."""

    def __init__(self, decoded: Decoded, tensors: Sequence[DramTensor]) -> None:
        self._decoded = decoded
        moves = direct_moves(decoded.accelerator)
        self._found: dict[int, tuple[RowFlow, ResultFlow]] = {}
        self._rows: list[RowFlow] = []
        self._places: dict[int, TensorPlace] = {}
        cells = cells_of(decoded.accelerator)
        # of several views of the same bytes results stay in the first: places in one are not compared with another's
        memories = {cells[move.target.memory].holder: move.target.memory for move in reversed(moves)}
        for memory in dict.fromkeys(memories[cells[move.target.memory].holder] for move in moves):
            row = row_flow(decoded, tensors, moves, memory)
            self._rows.append(row)
            for number, flow in enumerate(row.flows):
                if not flow.refused:
                    self._found.setdefault(number, (row, flow))
        self.candidates: Sequence[int] = sorted(self._found, key=lambda number: self._found[number][1].span)

    def rewritten(self, chosen: Sequence[int]) -> ResidentRow:
        """Returns the row in which those of ``chosen`` stay that fit beside each other and beside all else."""
        left = [number for number in self.candidates if number in set(chosen)]
        while True:
            staying = self._placed(left)
            editor = _Editor(self._decoded, self._rows, staying)
            if not editor.unfit:
                return editor.row()
            left = [each.number for each in staying if each.number not in editor.unfit]

    def _placed(self, numbers: Sequence[int]) -> list[_Staying]:
        staying: list[_Staying] = []
        for number in numbers:
            row, flow = self._found[number]
            place = self._place(number)
            others = [self._found[each][1] for each in numbers if self._found[each][0] is row]
            taken = [each.taken for each in staying if each.row is row]
            depth = self._decoded.accelerator.memories[row.memory].depth
            address = free_place(row, others, taken, flow.span, place.size, depth)
            if address is not None:
                staying.append(_Staying(number, row, flow, replace(place, address=address)))
        if len(staying) < len(numbers):  # what does not stay is loaded, to places that were thought free
            return self._placed([each.number for each in staying])
        return staying

    def _place(self, number: int) -> TensorPlace:
        if number not in self._places:
            self._places[number] = smallest_place(*self._found[number])
        return self._places[number]


class _Editor:
    """The instructions that take the place of others; ``unfit`` are the tensors whose instructions cannot be made."""

    def __init__(self, decoded: Decoded, rows: Sequence[RowFlow], staying: Sequence[_Staying]) -> None:
        self._decoded, self._accelerator = decoded, decoded.accelerator
        self._staying = staying
        self._shapes: dict[int, LoopShapes] = {}
        self._made: dict[int, list[Words]] = {}
        self._brought: dict[int, int] = {}
        self.unfit: set[int] = set()
        for each in staying:
            try:
                self._stores(each)
                self._loads(each)
            except DoesNotFitError:
                self.unfit.add(each.number)
        for at, reads in _readers(staying).items():
            sort, points = next(row.points[at] for row in rows if at in row.points)
            moved = points.copy()
            for tensor, each, elements in reads:
                moved[:, tensor] = each.place.of(elements)
            try:
                self._made[at] = self._reader(at, sort, moved)
            except DoesNotFitError:
                self.unfit.update(each.number for _, each, _ in reads)

    def row(self) -> ResidentRow:
        """Returns the row."""
        counts = np.ones(len(self._decoded), np.int64)
        for at, made in self._made.items():
            counts[at] = len(made)
        place = np.repeat(np.arange(len(self._decoded)), counts)
        words = self._decoded.words[place]
        starts = np.cumsum(counts) - counts
        for at, made in self._made.items():
            words[starts[at] : starts[at] + len(made)] = made or words[:0]
        return ResidentRow(words, place, tuple(map(self._resident, self._staying)))

    def _resident(self, each: _Staying) -> ResidentTensor:
        flow, size = each.flow, each.flow.element_bytes
        loaded = sum(shape.rows * shape.columns for shape in flow.loads.values())
        stored = sum(shape.rows * shape.columns for _, shape in flow.stores.values())
        keeps = _keeps_stores(flow)
        return ResidentTensor(
            number=each.number,
            memory=self._accelerator.memories[each.row.memory].name,
            address=each.place.address,
            elements=each.place.size,
            stored=keeps,
            bytes_not_read=(loaded - self._brought[each.number]) * size,
            bytes_not_written=0 if keeps else stored * size,
        )

    def _stores(self, each: _Staying) -> None:
        """Direct moves instead of the stores; besides them where others read what they store."""
        for at, (move, shape) in each.flow.stores.items():
            words = list(self._moved(at, move, shape, each.place))
            self._made[at] = [*words, self._decoded.words[at]] if _keeps_stores(each.flow) else words

    def _moved(self, at: int, move: DirectMove, shape: CopyShape, place: TensorPlace) -> Iterator[Words]:
        by_name = {move.target.name: place.of(shape.tensor_points()), move.source.name: shape.chip_points()}
        points = np.stack([by_name[tensor.name] for tensor in move.compute.tensors], axis=1)
        instruction = move.compute.instruction
        number = [each.name for each in self._accelerator.instructions].index(instruction.name)
        word = encoding_arrays(self._accelerator).values[number].copy()
        chosen = dict(move.compute.meaning.operation.when)
        chosen |= {ours: int(self._decoded.column(theirs)[at]) for ours, theirs in move.scalars}
        for name, value in chosen.items():
            self._put(word, instruction, name, value)
        yield from self._executions(word, move.compute, points)

    def _reader(self, at: int, sort: InstructionOperation, points: Int64) -> list[Words]:
        made = list(islice(self._executions(self._decoded.words[at], sort, points), _MOST + 1))
        if len(made) > _MOST:
            raise DoesNotFitError
        return made

    def _executions(self, word: Words, sort: InstructionOperation, points: Int64) -> Iterator[Words]:
        """Words like ``word`` that make the points (n, k) of an operation's k tensors."""
        shapes = self._shapes.setdefault(sort.code, LoopShapes(self._accelerator, sort))
        if not has_own_fields(sort):
            raise DoesNotFitError
        for execution in shapes.executions(points):
            made = word.copy()
            for name, value in fields_of(sort, execution):
                self._put(made, sort.instruction, name, value)
            yield made

    def _put(self, word: Words, instruction: Instruction, name: str, value: int) -> None:
        field = self._accelerator.field(instruction, name)
        if not fits_field(field, value):
            raise DoesNotFitError
        put_bits(word[None], 0, field, value)

    def _loads(self, each: _Staying) -> None:
        """Instead of loads those of what is read, and was never stored: a border, as it is in DRAM."""
        flow, size = each.flow, each.flow.element_bytes
        missing = np.zeros(flow.elements, np.bool_)
        for reads in each.row.reads.values():
            for number, elements in reads.values():
                if each.row.flows[number] is flow:
                    missing[elements] = True
        for _, shape in flow.stores.values():
            missing[shape.tensor_points()] = False
        self._brought[each.number] = int(missing.sum())
        for at, shape in sorted(flow.loads.items()):
            own = np.unique(shape.tensor_points())
            own = own[missing[own]]
            missing[own] = False
            self._made[at] = list(self._parts(at, own, each, size))
        assert not missing.any(), "what is read of a load was loaded"

    def _parts(self, at: int, elements: Int64, each: _Staying, size: int) -> Iterator[Words]:
        """Loads of ``elements`` of a tensor to where they are when it stays."""
        copy = self._accelerator.instructions[self._decoded.kind[at]]
        assert isinstance(copy, Copy)
        unit = size if copy.dram_unit == "element" else 1
        fields = copy.copy_fields
        most = 1 if fields.columns is None else self._accelerator.field(copy, fields.columns).limits[1] - 1
        places = each.place.of(elements)
        breaks = np.flatnonzero((np.diff(elements) != 1) | (np.diff(places) != 1)) + 1
        for run in np.split(elements, breaks) if len(elements) else ():
            for first in range(0, len(run), most):
                count = min(most, len(run) - first)
                word = self._decoded.words[at].copy()
                element = int(run[first])
                values = {
                    fields.sram: int(each.place.of(run[first])),
                    fields.dram: (each.flow.tensor.begin + element * size) // unit,
                }
                once = (fields.rows, *(dimension.extent for dimension in copy.dimensions))
                values |= {name: 1 for name in once if name is not None}
                values |= {name: count for name in (fields.columns,) if name is not None}
                for name, value in values.items():
                    self._put(word, copy, name, value)
                yield word


def _readers(staying: Sequence[_Staying]) -> Mapping[int, list[tuple[int, _Staying, Int64]]]:
    """Instructions that read what stays: the tensor of each, what it reads, and its elements."""
    found: dict[int, list[tuple[int, _Staying, Int64]]] = {}
    for each in staying:
        for at in dict.fromkeys(each.flow.reads):
            for tensor, (number, elements) in each.row.reads[at].items():
                if each.row.flows[number] is each.flow:
                    found.setdefault(at, []).append((tensor, each, elements))
    return found


def _keeps_stores(flow: ResultFlow) -> bool:
    return flow.stored or flow.tensor.needed
