"""Checks that the parts of a program agree; addresses are Python's integers, which do not overflow."""

import math
from itertools import pairwise

import numpy as np

from accel.accelerator.document import Accelerator
from accel.errors import InvalidProgram
from accel.isa.dram_windows import one_window_holds, window_map, windows_bytes
from accel.isa.family_registry import family_of
from accel.program.program_document import MOST_DRAM_BYTES
from accel.program.program_model import DramWindow, Launch, Program
from accel.program.written_tensors import read_unwritten
from accel.util.safe_names import shown, tensor_fault


def check_tokens(tokens: dict[str, int], accelerator: Accelerator) -> None:
    """Refuses tokens of a queue that does not exist, and more than its counter holds.

    Raises:
        InvalidProgram: ``field`` is ``initial_tokens.<queue>``.
    """
    names, sync = family_of(accelerator).token_queues(accelerator), accelerator.synchronisation
    limit = sync.limit if sync.kind == "tokens" else 0
    for name, count in tokens.items():
        field = f"initial_tokens.{name[:64]}"
        if name not in names:
            raise InvalidProgram(
                f"program.json, {field}: there is no such token queue; there are {', '.join(names) or 'none'}",
                field=field,
            )
        if not 0 <= count <= limit:
            raise InvalidProgram(
                f"program.json, {field}: {count} tokens; the queue's counter holds 0 to {limit}", field=field
            )


def check_program(program: Program) -> None:
    """Refuses segments beyond DRAM or with contents of another size, and steps of undefined segments or instructions.

    Raises:
        InvalidProgram: ``field`` says where.
    """
    check_windows(program.windows, program.accelerator)
    if program.windows and program.dram_bytes != windows_bytes(program.windows):
        raise InvalidProgram(
            f"dram_bytes is {program.dram_bytes}; the windows need {windows_bytes(program.windows)}", field="dram_bytes"
        )
    table = window_map(program.windows, program.dram_bytes)
    for segment in program.segments.values():
        size = np.dtype(segment.dtype).itemsize
        end = segment.address + math.prod(segment.shape) * size
        if not one_window_holds(table, segment.address, end) or segment.address % size:
            there = "its windows do not hold that" if program.windows else f"the DRAM has {program.dram_bytes}"
            raise InvalidProgram(
                f"segment {segment.name} lies at bytes {segment.address} to {end}; {there}, and elements "
                "must be aligned",
                field=f"segments.{segment.name}",
            )
    for name in (*program.inputs, *program.outputs):
        if fault := tensor_fault(name):
            raise InvalidProgram(f"no input or output can be called '{shown(name)}': {fault}", field="segments")
    names = [*program.inputs, *program.outputs, *program.expected, *(each.segment for each in program.residents)]
    for step in program.steps:
        names += [*step.inputs, *step.outputs]
        if isinstance(step, Launch):
            _check_writes(step, program)
        if isinstance(step, Launch) and step.begin + step.count > len(program.words):
            raise InvalidProgram(
                f"launch {step.name} ends at instruction {step.begin + step.count} of {len(program.words)}",
                field=f"steps.{step.name}",
            )
    unknown = [name for name in names if name not in program.segments]
    if unknown:
        raise InvalidProgram(f"no segment is called {unknown[0]}", field=f"segments.{unknown[0]}")
    _check_joined(program)
    _check_residents(program)
    _check_written(program)
    _check_origin(program)
    check_tokens(program.initial_tokens, program.accelerator)


def _check_written(program: Program) -> None:
    found = read_unwritten(program)
    if found is None:
        return
    step, name = found
    if step is None:
        raise InvalidProgram(f"no step writes the output {name}", field=f"segments.{name}")
    raise InvalidProgram(
        f"step {step.name} reads {name}, which has no data and which no step before it writes",
        field=f"steps.{step.name}",
    )


def check_windows(windows: tuple[DramWindow, ...], accelerator: Accelerator) -> None:
    """Refuses windows that the accelerator cannot address, that overlap, or that are too large.

    Raises:
        InvalidProgram: ``field`` is ``windows``.
    """
    if windows and not family_of(accelerator).takes_windows:
        raise InvalidProgram(
            f"windows: an address of {accelerator.name} counts from the first byte of DRAM, which has no windows",
            field="windows",
        )
    for low, high in pairwise(sorted(windows, key=lambda window: window.address)):
        if low.address + low.bytes > high.address:
            raise InvalidProgram(f"windows: those at {low.address:#x} and {high.address:#x} overlap", field="windows")
    if windows and windows_bytes(windows) > MOST_DRAM_BYTES:
        raise InvalidProgram(
            f"windows: they have {windows_bytes(windows)} bytes with the first page; at most {MOST_DRAM_BYTES}",
            field="windows",
        )


def _check_joined(program: Program) -> None:
    """Refuse launches that run on from what is no launch, from others' instructions, or once the host has written."""
    for before, launch in zip((None, *program.steps), program.steps, strict=False):
        if not isinstance(launch, Launch) or not launch.joined:
            continue
        fault = ""
        if not isinstance(before, Launch):
            fault = "the step before it is no launch"
        elif before.begin + before.count != launch.begin:
            fault = f"begins at instruction {launch.begin}; the one before it ends at {before.begin + before.count}"
        elif launch.writes:
            fault = "the host writes before it"
        if fault:
            raise InvalidProgram(f"launch {launch.name} is joined, and {fault}", field=f"steps.{launch.name}")


def _check_residents(program: Program) -> None:
    """Refuse residents and stripes of launches or memories that there are not, and residents beyond a memory."""
    launches = {step.name for step in program.steps if isinstance(step, Launch)}
    depths = {memory.name: memory.depth for memory in program.accelerator.memories}
    for number, each in enumerate(program.residents):
        fault = ""
        if unknown := [name for name in (*each.launches, *each.readers) if name not in launches]:
            fault = f"no launch is called {unknown[0]}"
        elif each.memory not in depths:
            fault = f"no memory is called {each.memory}"
        elif each.address + each.elements > depths[each.memory]:
            fault = f"it ends at element {each.address + each.elements}; {each.memory} has {depths[each.memory]}"
        if fault:
            raise InvalidProgram(f"resident {each.segment}: {fault}", field=f"residents.{number}")
    for number, chain in enumerate(program.striped):
        if unknown := [name for name in chain.launches if not launches & {name, f"{name}#1"}]:
            raise InvalidProgram(f"striped: no launch is called {unknown[0]}", field=f"striped.{number}.launches")


def _check_writes(launch: Launch, program: Program) -> None:
    for name in launch.writes:
        if name not in program.image:
            raise InvalidProgram(
                f"launch {launch.name}: writes names {name}, which has no data", field=f"steps.{launch.name}"
            )


def _check_origin(program: Program) -> None:
    if len(program.origin) != len(program.words):
        raise InvalidProgram(
            f"origin.bin has {len(program.origin)} entries for {len(program.words)} instructions", field="origin.bin"
        )
    if len(program.origin) and not -1 <= program.origin.min() <= program.origin.max() < len(program.origins):
        raise InvalidProgram(
            f"origin.bin names an origin beyond the {len(program.origins)} there are", field="origin.bin"
        )
