"""Flow of results through a row of launches: which stores leave a tensor, and which instructions read it again."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.shared_bytes import cells_of
from accel.isa.decode import Decoded
from accel.isa.explicit.hazards.accesses import AccessBox, Copying, boxes_of_executions, copying, extents_of
from accel.isa.explicit.operations import Executions, InstructionOperation, executions_of
from accel.isa.explicit.residency.direct_moves import DirectMove, moves_by_store
from accel.isa.explicit.residency.point_loops import points_of
from accel.isa.family import DramTensor
from accel.util.arrays import Int64

NOBODY = -1


@dataclass(frozen=True)
class CopyShape:
    """A copy as elements: the first on the chip and in the tensor, rows, their elements, from row to row there."""

    chip: int
    first: int
    rows: int
    columns: int
    stride: int

    def chip_points(self) -> Int64:
        """Its elements on the chip (rows * columns,)."""
        return self.chip + np.arange(self.rows * self.columns, dtype=np.int64)

    def tensor_points(self) -> Int64:
        """Its elements of the tensor (rows * columns,)."""
        rows = np.arange(self.rows, dtype=np.int64)[:, np.newaxis] * self.stride
        return np.asarray((self.first + rows + np.arange(self.columns, dtype=np.int64)).reshape(-1))


@dataclass
class ResultFlow:
    """A tensor: its stores and loads by instruction, and the instructions that read what was loaded.

    ``stored`` says that it must be in DRAM all the same, ``refused`` that it cannot stay.
    """

    tensor: DramTensor
    stores: dict[int, tuple[DirectMove, CopyShape]] = field(default_factory=dict)
    loads: dict[int, CopyShape] = field(default_factory=dict)
    reads: list[int] = field(default_factory=list)
    stored: bool = False
    refused: bool = False

    @property
    def element_bytes(self) -> int:
        """What an element takes in DRAM."""
        return next(iter(self.stores.values()))[0].element_bytes

    @property
    def elements(self) -> int:
        """Elements of the tensor."""
        return -(-(self.tensor.end - self.tensor.begin) // self.element_bytes)

    @property
    def stored_first(self) -> bool:
        """Whether no element is stored once it was loaded."""
        if max(self.stores) <= min(self.loads, default=max(self.stores)):
            return True
        last = np.full(self.elements, NOBODY, np.int64)
        for at, (_, shape) in sorted(self.stores.items()):
            last[shape.tensor_points()] = at
        return not any((last[shape.tensor_points()] > at).any() for at, shape in self.loads.items())

    @property
    def span(self) -> tuple[int, int]:
        """The first instruction that stores it, and the last that reads it."""
        return min(self.stores), max([*self.reads, *self.loads])


@dataclass(frozen=True)
class Occupied:
    """Elements ``[low, high)`` of the memory that hold something from one instruction to another.

    ``reader`` is the instruction and tensor that reads it, if the flow of a result does not end there; ``load`` the
    load that leaves it: they are not there where those are not.
    """

    begin: int
    end: int
    low: int
    high: int
    reader: tuple[int, int] = (NOBODY, 0)
    load: int = NOBODY


@dataclass(frozen=True)
class RowFlow:
    """What a row of launches does with results in one memory.

    Attributes:
        memory: its number.
        flows: of the tensors, in their order.
        reads: by instruction and tensor of its operation, which flow that is of, and the elements (n,) that it reads.
        points: of these instructions the operation, and the addresses (n, k) of its k tensors.
        occupied: what needs the memory, and when.
    """

    memory: int
    flows: tuple[ResultFlow, ...]
    reads: Mapping[int, Mapping[int, tuple[int, Int64]]]
    points: Mapping[int, tuple[InstructionOperation, Int64]]
    occupied: Sequence[Occupied]

    def number_of(self, flow: ResultFlow) -> int:
        """Returns which of ``flows`` this one is."""
        return next(number for number, each in enumerate(self.flows) if each is flow)


def row_flow(decoded: Decoded, tensors: Sequence[DramTensor], moves: tuple[DirectMove, ...], memory: int) -> RowFlow:
    """Returns the flow of ``tensors`` through the instructions of a row, as far as they stay in ``memory``."""
    return _Walk(decoded, tensors, moves, memory).flow()


@dataclass(frozen=True)
class _Step:
    """An instruction of the walk: its operation, and its place among the executions of that."""

    row: int
    executions: Executions
    at: int


class _Walk:
    """The instructions in their order, with what each element of the memory holds."""

    def __init__(
        self, decoded: Decoded, tensors: Sequence[DramTensor], moves: tuple[DirectMove, ...], memory: int
    ) -> None:
        accelerator = decoded.accelerator
        self._decoded, self._memory, self._dram = decoded, memory, len(accelerator.memories)
        self._name = accelerator.memories[memory].name
        self._cells = cells_of(accelerator)
        self._moves = moves_by_store(moves, memory)
        self._loads = {move.load.code for move in moves if move.target.memory == memory}
        self._flows = [ResultFlow(tensor) for tensor in tensors]
        order = sorted(range(len(tensors)), key=lambda number: tensors[number].begin)
        self._order = np.array(order, np.int64)
        self._begins = np.array([tensors[number].begin for number in order], np.int64)
        self._ends = np.array([tensors[number].end for number in order], np.int64)
        depth = accelerator.memories[memory].depth
        self._flow_of, self._element = np.full(depth, NOBODY, np.int64), np.zeros(depth, np.int64)
        self._writer = np.full(depth, NOBODY, np.int64)
        self._reads: dict[int, dict[int, tuple[int, Int64]]] = defaultdict(dict)
        self._points: dict[int, tuple[InstructionOperation, Int64]] = {}
        self._occupied: list[Occupied] = []

    def flow(self) -> RowFlow:
        sorts = list(executions_of(self._decoded))
        self._boxes = {id(each): list(boxes_of_executions(each)) for each in sorts}
        self._shapes = {
            id(each): copying(each.words, each.sort.instruction)
            for each in sorts
            if isinstance(each.sort.instruction, Copy)
        }
        steps = [_Step(row, each, at) for each in sorts for at, row in enumerate(each.words.rows.tolist())]
        steps.sort(key=lambda step: step.row)
        for step in steps:
            instruction = step.executions.sort.instruction
            if isinstance(instruction, Copy):
                self._copy(step, instruction)
            elif isinstance(instruction, Compute):
                self._compute(step)
            else:
                self._other(step)
        for flow in self._flows:
            flow.refused |= not flow.stores or not flow.reads or not flow.stored_first
        return RowFlow(self._memory, tuple(self._flows), self._reads, self._points, self._occupied)

    def _copy(self, step: _Step, copy: Copy) -> None:
        shape = self._shapes[id(step.executions)]
        chip, *beside, dram = self._boxes[id(step.executions)]
        if not bool(chip.some()[step.at]):
            return
        here = copy.memory == self._name
        for box in beside if here else [chip, *beside]:
            self._around(step, box)
        low, high = int(chip.low()[step.at]), int(chip.high()[step.at])
        flows = self._touched(int(dram.low()[step.at]), int(dram.high()[step.at]))
        whole = self._whole(step, flows, shape)
        code = step.executions.sort.code
        if copy.direction == "store":
            if here:
                self._kept(step.row, np.arange(low, high), None)
            for flow in flows:
                if whole is None or code not in self._moves:
                    flow.refused = True
                else:
                    flow.stores[step.row] = self._moves[code], whole
            return
        taken = whole is not None and here and code in self._loads and not self._padded(step, shape)
        for flow in flows:
            if taken and whole is not None:
                flow.loads[step.row] = whole
            else:
                flow.stored = True
        if here:
            self._loaded(step.row, low, high, (self._flows.index(flows[0]), whole) if taken and whole else None)

    def _loaded(self, row: int, low: int, high: int, result: tuple[int, CopyShape] | None) -> None:
        """Note a load, of ``result`` if that may stay: its flow and elements."""
        self._writer[low:high] = row
        self._flow_of[low:high] = NOBODY
        self._occupied.append(Occupied(row, row, low, high, load=NOBODY if result is None else row))
        if result is not None:
            self._flow_of[low:high] = result[0]
            self._element[low:high] = result[1].tensor_points()

    @staticmethod
    def _padded(step: _Step, shape: Copying) -> bool:
        return bool(shape.height[step.at] != shape.rows[step.at] or shape.width[step.at] != shape.columns[step.at])

    def _touched(self, low: int, high: int) -> list[ResultFlow]:
        """The tensors of which a copy may touch bytes ``[low, high)``."""
        some = (self._begins < high) & (self._ends > low)
        return [self._flows[number] for number in self._order[some].tolist()]

    def _whole(self, step: _Step, flows: Sequence[ResultFlow], shape: Copying) -> CopyShape | None:
        """A copy as elements of the one tensor that it is within; None where it is within none."""
        if len(flows) != 1:
            return None
        sort, tensor = step.executions.sort, flows[0].tensor
        assert isinstance(sort.instruction, Copy)
        size = sort.instruction.dram_bytes(self._decoded.accelerator.memory(sort.instruction.memory))
        *_, dram = self._boxes[id(step.executions)]
        if dram.low()[step.at] < tensor.begin or dram.high()[step.at] > tensor.end:
            return None
        first, stride = int(shape.dram[step.at]) - tensor.begin, int(shape.row_stride[step.at])
        rows, columns = int(shape.rows[step.at]), int(shape.columns[step.at])
        further = bool((shape.extents[:, step.at] > 1).any())  # places are compared row by row
        if further or first % size or (rows > 1 and stride % size):
            return None
        return CopyShape(int(shape.sram[step.at]), first // size, rows, columns, stride // size)

    def _compute(self, step: _Step) -> None:
        executions, tensors = step.executions, step.executions.sort.tensors
        for box in self._boxes[id(step.executions)]:
            if box.memory != self._memory:
                self._around(step, box)
        here = [place for place, tensor in enumerate(tensors) if tensor.memory == self._memory]
        if not here:
            return
        words = executions.words
        assert isinstance(executions.sort.instruction, Compute)
        extents = [int(extent[step.at]) for extent in extents_of(words, executions.sort.instruction.loops)]
        begins = [int(words.column(tensor.address)[step.at]) for tensor in tensors]
        steps = [
            [int(words.column(each)[step.at]) if isinstance(each, str) else each for each in loop]
            for loop in zip(*(tensor.steps for tensor in tensors), strict=True)
        ]
        points = points_of(begins, extents, steps)
        if not len(points):
            return
        written = [place for place in here if tensors[place].writes]
        boxes = self._boxes[id(executions)]
        changed = [np.arange(int(boxes[place].low()[step.at]), int(boxes[place].high()[step.at])) for place in written]
        for place in here:
            if not tensors[place].reads:
                continue
            low, high = int(boxes[place].low()[step.at]), int(boxes[place].high()[step.at])
            plain = tensors[place].span == 1 and not tensors[place].longer and place not in written
            plain &= not any(np.isin(points[:, place], each).any() for each in changed)
            read = points[:, place] if plain else np.arange(low, high)
            flow = self._kept(step.row, read, place if plain else None)
            if flow is not None:
                self._reads[step.row][place] = flow, self._element[points[:, place]]
                self._points[step.row] = executions.sort, points
                self._flows[flow].reads.append(step.row)
        for each in changed:
            self._flow_of[each], self._writer[each] = NOBODY, step.row
            self._occupied.append(Occupied(step.row, step.row, int(each[0]), int(each[-1]) + 1))

    def _kept(self, row: int, elements: Int64, place: int | None) -> int | None:
        """Note a read; returns the result that it is of, where it is of one alone and can be read elsewhere."""
        flows = np.unique(self._flow_of[elements]).tolist()
        alone = place is not None and len(flows) == 1 and flows[0] != NOBODY
        for flow in flows if not alone else ():
            if flow != NOBODY:
                self._flows[flow].refused = True
        reader = (row, place) if place is not None and alone else (NOBODY, 0)
        begin = int(self._writer[elements].min())
        self._occupied.append(Occupied(begin, row, int(elements.min()), int(elements.max()) + 1, reader))
        return flows[0] if alone else None

    def _other(self, step: _Step) -> None:
        """What is neither: a layer, with its tensors in DRAM."""
        for box in self._boxes[id(step.executions)]:
            low, high = int(box.low()[step.at]), int(box.high()[step.at])
            if box.memory == self._dram:
                for flow in self._touched(low, high):
                    flow.stored = True
                    flow.refused |= box.writes
            else:
                self._around(step, box)

    def _around(self, step: _Step, box: AccessBox) -> None:
        """An access that no move does, of the memory or of a view of its bytes: what it reads cannot be elsewhere."""
        if box.memory >= len(self._cells) or self._cells[box.memory].holder != self._cells[self._memory].holder:
            return
        if not bool(box.some()[step.at]):
            return
        its, ours = self._cells[box.memory].each, self._cells[self._memory].each
        low, high = int(box.low()[step.at]) * its // ours, -(-int(box.high()[step.at]) * its // ours)
        if box.writes:
            self._overwritten(step.row, low, high)
        else:
            self._kept(step.row, np.arange(low, high), None)

    def _overwritten(self, row: int, low: int, high: int) -> None:
        """Note that elements hold something else, of which an instruction may read what was there."""
        self._kept(row, np.arange(low, high), None)
        self._flow_of[low:high], self._writer[low:high] = NOBODY, row
        self._occupied.append(Occupied(row, row, low, high))
