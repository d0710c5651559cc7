"""Streams of a program for somebody who has the hardware: instructions, DRAM before and after, expected cycles.

A stream is what the host starts at once: launches that run as one. It begins with the configuration that it would
find, so that each runs by itself after reset. The folder has the form of recordings of hardware
(:mod:`accel.isa.recorded.recordings`): with measured cycles in place of the expected ones ``cyclops calibrate``
compares them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from accel.accelerator.document import TokenSync
from accel.accelerator.instructions import Part
from accel.catalog.load_accelerator import canonical
from accel.errors import InvalidProgram
from accel.isa.decode import Decoded, decode
from accel.isa.dram_stretches import Stretches
from accel.isa.family_registry import family_of
from accel.isa.moved_addresses import moved_words
from accel.isa.recorded.recordings import Recording
from accel.isa.recorded.replay import replayed
from accel.program.program_model import HostStep, Launch, Program, joined_steps
from accel.simulate.machine_state import MachineState
from accel.util.arrays import Array, Bytes, Int64, Words
from accel.util.whole_files import write_whole

PAGE = 4096
BASE = 1 << 20
_KIND, _IN_FLIGHT = "compiled", 64


@dataclass(frozen=True)
class ExportOptions:
    """Where tensors lie in the DRAM of the hardware, and the latencies of its memory that cycles are told for.

    ``base`` is added to all addresses; it is a positive multiple of 1 MiB.
    """

    latencies: tuple[int, ...]
    base: int = BASE


@dataclass(frozen=True)
class ExportedStream:
    """One stream: its launches, instructions (n, word_bits / 64), and the pages (p, 4096) of DRAM by number.

    ``before`` are all pages that it touches, ``after`` those of them that differ at its end. ``configuration`` are the
    first instructions, which set what the stream would find in registers. ``tokens`` are those that it finds in queues.
    """

    launches: tuple[Launch, ...]
    words: Words
    configuration: int
    before: Mapping[int, Bytes]
    after: Mapping[int, Bytes]
    tokens: Mapping[str, int]
    cycles: Mapping[int, int]

    @property
    def name(self) -> str:
        """Its launches, as the first is called."""
        return f"{_KIND}/{self.launches[0].name}"


def export_streams(program: Program, inputs: Mapping[str, Array], options: ExportOptions, folder: Path) -> int:
    """Write the streams of a program with these inputs to a folder, which is made; returns how many there are.

    Raises:
        InvalidProgram: it has windows of its own, or its addresses do not reach ``options.base``.
        InvalidTensors, SimulationError: as for running it.
    """
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    index: list[dict[str, Any]] = []
    words: list[Words] = []
    free = options.base + -(-program.dram_bytes // PAGE) * PAGE
    for number, stream in enumerate(streams_of(program, inputs, options)):
        run = f"runs/{number:04}.npz"
        index.append(_entry(stream, run, free))
        words.append(stream.words)
        _save_run(folder / run, stream, free)
    first = np.cumsum([0, *(len(each) for each in words)])
    wide = program.accelerator.word_bits // 64
    np.savez_compressed(
        folder / "streams.npz", words=np.concatenate([np.zeros((0, wide), np.uint64), *words]), first=first
    )
    write_whole(folder / "index.json", json.dumps(index, indent=1) + "\n")
    write_whole(folder / "accelerator.json", canonical(program.accelerator))
    return len(index)


def _entry(stream: ExportedStream, run: str, free: int) -> dict[str, Any]:
    return {
        "name": stream.name,
        "kind": _KIND,
        "spacing": 1,
        "in_flight": _IN_FLIGHT,
        "cycles": {str(latency): cycles for latency, cycles in stream.cycles.items()},
        "cycles_are": "expected",
        "launches": [launch.name for launch in stream.launches],
        "insns": len(stream.words),
        "configuration": stream.configuration,
        "initial_tokens": dict(stream.tokens),
        "run": run,
        "insn_phy": free,
        "pre_pages": len(stream.before),
        "changed_pages": len(stream.after),
    }


def _save_run(path: Path, stream: ExportedStream, free: int) -> None:
    def pages(kept: Mapping[int, Bytes]) -> Bytes:
        return np.stack(list(kept.values())) if kept else np.zeros((0, PAGE), np.uint8)

    np.savez_compressed(
        path,
        insn=stream.words.astype("<u8").view(np.uint8).reshape(len(stream.words), -1),
        insn_phy=np.uint64(free),
        page_bytes=np.uint64(PAGE),
        pre_idx=np.array(list(stream.before), np.int64) - 1,  # the page before: as VTA's runs count them
        pre_pages=pages(stream.before),
        post_idx=np.array(list(stream.after), np.int64) - 1,
        post_pages=pages(stream.after),
    )


def streams_of(program: Program, inputs: Mapping[str, Array], options: ExportOptions) -> Iterator[ExportedStream]:
    """Yields the streams of a program in their order, as it runs with these inputs.

    Raises:
        InvalidProgram, InvalidTensors, SimulationError: as for :func:`export_streams`.
    """
    if program.windows:
        raise InvalidProgram("a program with windows lies where it lies; it cannot be moved", field="windows")
    family, sync = family_of(program.accelerator), program.accelerator.synchronisation
    carries = isinstance(sync, TokenSync) and sync.carry
    runner = MachineState(program, function=True)
    runner.write_inputs(inputs)
    context = family.first_context(program.accelerator, program.windows)
    tokens, found = dict(program.initial_tokens), np.zeros((0, program.accelerator.word_bits // 64), np.uint64)
    for steps in joined_steps(program.steps):
        if isinstance(steps, HostStep):
            runner.host(steps)
            continue
        decoded = replace(_decoded(program, steps), context=context)
        runner.write_before(steps[0])
        runner.check(decoded)
        touched = _pages(Stretches.of(family.boxes(decoded)))
        before = {page: _page(runner.dram, page) for page in touched}
        runner.launch(decoded)
        after = {page: now for page in touched if not np.array_equal(now := _page(runner.dram, page), before[page])}
        yield _moved(program, ExportedStream(steps, decoded.words, 0, before, after, tokens, {}), found, options)
        context, found = family.next_context(decoded), _configuration(found, decoded)
        if carries:
            tokens = dict(family.time(decoded, tokens).tokens)


def _decoded(program: Program, launches: Sequence[Launch]) -> Decoded:
    begin, end = launches[0].begin, launches[-1].begin + launches[-1].count
    return decode(program.accelerator, program.words[begin:end], begin)


def _pages(touched: Stretches) -> list[int]:
    """The pages of stretches of bytes, ascending."""
    pages = [np.arange(begin // PAGE, -(-end // PAGE)) for begin, end in zip(touched.begin, touched.end, strict=True)]
    found: Int64 = np.unique(np.concatenate([np.zeros(0, np.int64), *pages]))
    return [int(page) for page in found]


def _page(dram: Bytes, page: int) -> Bytes:
    own = dram[page * PAGE : (page + 1) * PAGE]
    return np.concatenate([own, np.zeros(PAGE - len(own), np.uint8)])


def _configuration(found: Words, decoded: Decoded) -> Words:
    """The last word of each kind that sets registers, in the order of the document, after a stream that found some."""
    accelerator = decoded.accelerator
    kinds = np.concatenate([decode(accelerator, found).kind, decoded.kind])
    words = np.concatenate([found, decoded.words])
    last = [
        int(np.flatnonzero(kinds == place)[-1])
        for place, each in enumerate(accelerator.instructions)
        if isinstance(each, Part) and each.sticky and (kinds == place).any()
    ]
    return words[last]


def _moved(program: Program, stream: ExportedStream, found: Words, options: ExportOptions) -> ExportedStream:
    """The stream where it lies in the hardware's DRAM, with the configuration that it finds, and its cycles there."""
    accelerator, further = program.accelerator, options.base // PAGE
    words = np.concatenate([found, stream.words])
    none = all(segment.address > 0 for segment in program.segments.values())
    words = moved_words(decode(accelerator, words), options.base, zero_is_none=none)
    recording = Recording(
        stream.name, _KIND, 1, _IN_FLIGHT, None, stream.tokens, words, np.zeros((0, 3), np.uint64), {}, {}, {}
    )
    cycles = {latency: replayed(accelerator, recording, latency).cycles for latency in options.latencies}
    before, after = ({page + further: own for page, own in kept.items()} for kept in (stream.before, stream.after))
    return replace(stream, words=words, configuration=len(found), before=before, after=after, cycles=cycles)
