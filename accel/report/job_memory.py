"""The memory plan of a job: what ``allocate`` decided for each function, at the launches that run it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from accel.lowering.ir.function_attributes import ScratchpadBuffer
from accel.program.program_model import Launch, Program
from accel.report.documents.memory_documents import Allocation, LayerMemory, MemoryPlan, OnChipMemory, Role
from accel.simulate.engine import LaunchResult, Simulation
from accel.util.arrays import Int64

_MICROOPS = "microops"


def memory_plan(
    program: Program, simulation: Simulation, buffers: Mapping[str, tuple[ScratchpadBuffer, ...]]
) -> MemoryPlan:
    """Returns the plan of a program that was timed; ``buffers`` are those of its functions, by function."""
    memories = [
        OnChipMemory(name=memory.name, elements=memory.depth, element_bytes=memory.element_bytes)
        for memory in program.accelerator.memories
    ]
    layers = [_layer(program, result, buffers) for result in simulation.launches]
    return MemoryPlan(memories=memories, layers=layers)


def _layer(program: Program, result: LaunchResult, buffers: Mapping[str, tuple[ScratchpadBuffer, ...]]) -> LayerMemory:
    launch, timing = result.launch, result.timing
    assert timing is not None  # a job counts cycles
    found: list[Allocation] = []
    if launch.count:
        origin = program.origin[launch.begin : launch.begin + launch.count].astype(np.int64)
        low = int(origin.min())
        spans = _spans(origin - low, np.asarray(timing.start, np.int64), np.asarray(timing.end, np.int64))
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


def _spans(origin: Int64, start: Int64, end: Int64) -> Int64:
    """For each origin (4, origins): its first and last instruction, when they start and have ended; none: _NONE."""
    count = int(origin.max()) + 1
    spans = np.empty((4, count), np.int64)
    spans[[0, 2]], spans[[1, 3]] = _NONE, -1
    rows = np.arange(len(origin), dtype=np.int64)
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
        first_instruction=None if first is None else result.launch.begin + first,
        last_instruction=None if last is None else result.launch.begin + last,
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
