"""The memory plan of a job: what ``allocate`` decided for each function, at the launches that run it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from accel.lowering.ir.function_attributes import ScratchpadBuffer
from accel.program.program_model import InstructionOrigin, Launch, Program
from accel.report.documents.memory_documents import Allocation, LayerMemory, MemoryPlan, OnChipMemory, Role
from accel.simulate.engine import LaunchResult, Simulation
from accel.util.arrays import Bools, Int64

_MICROOPS = "microops"


def memory_plan(
    program: Program, simulation: Simulation, buffers: Mapping[str, tuple[ScratchpadBuffer, ...]]
) -> MemoryPlan:
    """Returns the plan of a program that was timed; ``buffers`` are those of its functions, by function."""
    memories = [
        OnChipMemory(name=memory.name, elements=memory.depth, element_bytes=memory.element_bytes)
        for memory in program.accelerator.memories
    ]
    rows = _Rows(program, simulation)
    layers = [_layer(program, result, rows, buffers) for result in simulation.launches]
    return MemoryPlan(memories=memories, layers=layers)


_Spans = tuple[Int64, Int64, Int64, Int64]
"""Instructions (m,), where each comes from, when it starts, and when it has ended."""


class _Rows:
    """Whose instructions are whose, by where they come from: some stand in the range of a launch before."""

    def __init__(self, program: Program, simulation: Simulation) -> None:
        self._program, self._block = program, _blocks(program.origins)
        self._ahead: dict[int, list[_Spans]] = {}
        for result in simulation.launches:
            if result.launch.count:
                own, spans = self._of_range(result)
                blocks = self._block[spans[1]]
                for block in np.unique(blocks[blocks != own]).tolist():
                    self._ahead.setdefault(block, []).append(_some(spans, blocks == block))

    def of(self, result: LaunchResult) -> _Spans:
        """Returns the instructions that are a launch's."""
        own, spans = self._of_range(result)
        found = [*self._ahead.get(own, []), _some(spans, self._block[spans[1]] == own)]
        rows, origin, start, end = (np.concatenate(column) for column in zip(*found, strict=True))
        return rows, origin, start, end

    def _of_range(self, result: LaunchResult) -> tuple[int, _Spans]:
        """The block of a launch, the first of those in its range, and all instructions there."""
        launch, timing = result.launch, result.timing
        assert timing is not None  # a job counts cycles
        rows = np.arange(launch.begin, launch.begin + launch.count)
        origin = self._program.origin[rows].astype(np.int64)
        start, end = np.asarray(timing.start, np.int64), np.asarray(timing.end, np.int64)
        return int(self._block[origin].min()), (rows, origin, start, end)


def _some(spans: _Spans, which: Bools) -> _Spans:
    rows, origin, start, end = (column[which] for column in spans)
    return rows, origin, start, end


def _blocks(origins: Sequence[InstructionOrigin]) -> Int64:
    """Of each origin (n,) the number of the launch that it is of: those of a launch are its function's call sites."""
    found, seen = np.zeros(len(origins), np.int64), set[int]()
    for number, origin in enumerate(origins):
        before = origins[number - 1] if number else origin
        again = origin.function != before.function or origin.site in seen
        seen = {origin.site} if again else seen | {origin.site}
        found[number] = (found[number - 1] if number else 0) + again
    return found


def _layer(
    program: Program, result: LaunchResult, rows: _Rows, buffers: Mapping[str, tuple[ScratchpadBuffer, ...]]
) -> LayerMemory:
    launch, timing = result.launch, result.timing
    assert timing is not None  # a job counts cycles
    found: list[Allocation] = []
    if launch.count:
        at, origin, start, end = rows.of(result)
        low = int(origin.min())
        spans = _spans(at, origin - low, start, end)
        of_site = {program.origins[low + place].site: place for place in range(spans.shape[1])}
        ours = [_moved(program, launch, buffer) for buffer in buffers.get(program.origins[low].function, ())]
        tensors = _tensors(launch, ours)
        for buffer in ours:
            touched = spans[:, [of_site[site] for site in buffer.sites if site in of_site]]
            found += [_allocation(program, result, part, tensors, touched) for part in _contiguous(buffer)]
    return LayerMemory(
        name=launch.name,
        begin_cycle=result.first_cycle,
        end_cycle=result.first_cycle + timing.cycles,
        allocations=found,
    )


def _moved(program: Program, launch: Launch, buffer: ScratchpadBuffer) -> ScratchpadBuffer:
    """The buffer where it lies in a launch that has a place of its own; its micro-ops are in a table of several."""
    buffer = replace(buffer, address=buffer.address + launch.moved.get(buffer.memory, 0))
    if buffer.name == _MICROOPS and launch.inputs:
        (size,) = program.segments[launch.inputs[-1]].shape
        buffer = replace(buffer, elements=size, pitch=size)
    return buffer


def _contiguous(buffer: ScratchpadBuffer) -> list[ScratchpadBuffer]:
    """The buffer, or its copies where there is room for others between them."""
    if buffer.copies == 1 or buffer.pitch == buffer.elements:
        return [buffer]
    starts = range(buffer.address, buffer.end, buffer.pitch)
    return [replace(buffer, address=start, copies=1, pitch=buffer.elements) for start in starts]


_NONE = 1 << 62


def _spans(rows: Int64, origin: Int64, start: Int64, end: Int64) -> Int64:
    """For each origin (4, origins): its first and last instruction, when they start and have ended; none: _NONE."""
    count = int(origin.max()) + 1
    spans = np.empty((4, count), np.int64)
    spans[[0, 2]], spans[[1, 3]] = _NONE, -1
    np.minimum.at(spans[0], origin, rows)
    np.maximum.at(spans[1], origin, rows)
    np.minimum.at(spans[2], origin, start)
    np.maximum.at(spans[3], origin, end)
    return spans


def _allocation(
    program: Program, result: LaunchResult, buffer: ScratchpadBuffer, tensors: list[str], spans: Int64
) -> Allocation:
    loaded, stored = ([tensors[place] for place in places] for places in (buffer.loads, buffer.stores))
    first, last, begin, end = (
        (int(spans[0].min()), int(spans[1].max()), int(spans[2].min()), int(spans[3].max()))
        if spans.size and spans[1].max() >= 0
        else (None, None, None, None)
    )
    return Allocation(
        memory=buffer.memory,
        begin=buffer.address,
        end=buffer.end,
        copies=buffer.copies,
        buffer=buffer.name,
        role=_role(program, buffer, loaded, stored),
        tensors=list(dict.fromkeys([*loaded, *stored])),
        first_instruction=first,
        last_instruction=last,
        begin_cycle=None if begin is None else result.started + begin,
        end_cycle=None if end is None else result.started + end,
    )


def _tensors(launch: Launch, buffers: Sequence[ScratchpadBuffer]) -> list[str]:
    """The segments that a function's parameters are: its inputs, its outputs, and then its table of micro-ops."""
    tables = sum(buffer.name == _MICROOPS for buffer in buffers)  # behind the inputs of a launch
    inputs = len(launch.inputs) - tables
    return [*launch.inputs[:inputs], *launch.outputs, *launch.inputs[inputs:]]


def _role(program: Program, buffer: ScratchpadBuffer, loaded: list[str], stored: list[str]) -> Role:
    if buffer.name == _MICROOPS:
        return "micro-ops"
    if stored:
        return "result"
    if not loaded:
        return "intermediate"
    return "constant" if program.constants.issuperset(loaded) else "data"
