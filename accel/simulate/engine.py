"""The engine that runs a Program: launches on the simulated accelerator, host steps through Relax, over one DRAM."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.errors import SimulationError
from accel.host.operator_work import OperatorWork
from accel.isa.decode import KEPT, Decoded, decode, decoded_again
from accel.isa.family import Boxes, Timing
from accel.isa.family_registry import family_of
from accel.isa.hazard_findings import Hazards
from accel.program.program_model import HostStep, Launch, Program, joined_groups, joined_steps
from accel.simulate.cycle_account import CycleAccount, account_parts, compute_unit
from accel.simulate.machine_state import MachineState
from accel.simulate.segment_bounds import Stray
from accel.util.arrays import Array, Bytes, Words, narrowed
from accel.util.free_memory import release_free_memory

T = TypeVar("T")

MANY = 1 << 18
"""Instructions of a launch whose fields and times take 100 MB and more."""
_FEW = 1 << 10  # instructions, which are timed before another thread would have begun
_CLOCKS = 2  # threads that time launches
_IN_FLIGHT = 2 * MANY  # instructions of launches that are being timed at the same time


@dataclass(frozen=True)
class LaunchResult:
    """One launch as it ran, of n instructions. ``timing`` is None where only function was asked for.

    ``words`` (n, word_bits / 64) are its instructions, ``kind`` (n,) their sorts; their fields, which take many times
    the memory, are decoded again when they are asked for. ``first_cycle`` is where it begins on the program's clock,
    which stands still during host steps. ``account`` says where its cycles went; None where it was not timed.

    Launches that are joined run as one: ``timing`` counts from ``started``, when the first of them began, and what it
    counts as this one's ``cycles`` are those from when the compute unit is done with the launch before it until it is
    done with this one (:func:`part_ends`). ``account`` is of these cycles, in which other units may work for another of
    the launches.

    ``at_hand`` is what was decoded of a launch of few instructions, with all that was derived of it.
    """

    launch: Launch
    accelerator: Accelerator
    words: Words
    kind: npt.NDArray[np.int16]
    context: object
    first_cycle: int
    timing: Timing | None
    account: CycleAccount | None = None
    started: int = 0
    at_hand: Decoded | None = None

    @property
    def decoded(self) -> Decoded:
        """All instructions of the launch by field; they are decoded at each access, unless they are few."""
        if self.at_hand is not None:
            return self.at_hand
        return replace(self.part(0, len(self.words)), context=self.context)

    def part(self, begin: int, end: int) -> Decoded:
        """Returns the instructions ``[begin, end)`` of the launch by field, without the state that registers hold."""
        at = self.launch.begin + begin
        return decoded_again(self.accelerator, self.words[begin:end], self.kind[begin:end], at)


@dataclass(frozen=True)
class Simulation:
    """The result of running a program: its outputs, and the final contents of DRAM.

    ``outputs`` and ``dram`` are empty where only timing was asked for, ``cycles`` is 0 where only function was.
    ``hazards`` is None where they were not checked: without function, or in a bare stream with no data.
    ``strays`` are changes of DRAM beyond the segments, for a program whose segments are known by pages alone.
    ``host_works`` is what the operators of each host step have to do; None where function was not asked for.
    """

    outputs: dict[str, Array]
    launches: tuple[LaunchResult, ...]
    cycles: int
    tokens: dict[str, int]
    dram: Bytes
    hazards: Hazards | None
    strays: tuple[Stray, ...] = ()
    host_works: tuple[Sequence[OperatorWork], ...] | None = None

    def together(self) -> Iterator[list[LaunchResult]]:
        """Returns the launches that ran as one, in their order."""
        return joined_groups(self.launches, lambda result: result.launch.joined)


def decoded_together(results: Sequence[LaunchResult]) -> Decoded:
    """Returns the instructions of launches that ran as one; their fields are decoded again, unless they are few."""
    first = results[0]
    if len(results) == 1:
        return first.decoded
    words, kind = (np.concatenate(each) for each in zip(*((one.words, one.kind) for one in results), strict=True))
    return replace(decoded_again(first.accelerator, words, kind, first.launch.begin), context=first.context)


def simulate(
    program: Program,
    inputs: Mapping[str, Array],
    *,
    function: bool = True,
    timing: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Simulation:
    """Runs the program's steps in order.

    Args:
        program: what to run.
        inputs: an array for each of ``program.inputs``, of its segment's shape and type; an input that has contents in
            the program's image may be left out.
        function: compute the outputs, and look for hazards.
        timing: count cycles.
        progress: called with (step, total) before each step.

    Raises:
        InvalidTensors: an input is missing, unknown, or of another shape or type.
        SimulationError: an undefined or out-of-range instruction, a deadlock, a host step that does not fit.
        InvalidAccelerator: its family is not installed.
    """
    family = family_of(program.accelerator)
    runner = MachineState(program, function=function)
    if function:
        runner.write_inputs(inputs)
    launches: list[tuple[list[LaunchResult], Future[_Measured]]] = []
    context = family.first_context(program.accelerator, program.windows)
    last = max((number for number, step in enumerate(program.steps) if isinstance(step, Launch)), default=-1)
    decoded: Decoded | None = None
    number = ran = 0

    with _Clock(program, timing=timing) as clock:
        for steps in joined_steps(program.steps):
            if progress is not None:
                progress(number, len(program.steps))
            if isinstance(steps, HostStep):
                runner.host(steps)
                number += 1
                continue
            decoded = None  # before the next one is there
            count = sum(launch.count for launch in steps)
            _give_back(count)
            decoded = replace(_decode(program, steps), context=context)
            runner.write_before(steps[0])
            _in_launch(steps, partial(runner.check, decoded))
            _give_back(count)
            measured = clock.measure(steps, decoded, beside=function)
            _in_launch(steps, partial(runner.launch, decoded))
            ran += count
            launches.append((list(_untimed(program, steps, decoded, at_hand=ran <= KEPT)), measured))
            number += len(steps)
            if number <= last:
                context = _in_launch(steps, partial(family.next_context, decoded))
    hazards = Hazards.of(runner.hazards) if runner.hazards else None
    done, cycles, tokens = _timed(launches, dict(program.initial_tokens))
    works = tuple(runner.host_works) if function else None
    return Simulation(runner.outputs(), done, cycles, tokens, runner.dram, hazards, tuple(runner.strays), works)


def _untimed(program: Program, steps: Sequence[Launch], decoded: Decoded, *, at_hand: bool) -> Iterator[LaunchResult]:
    """Launches that run as one, each with the state that it finds; ``at_hand``: what is decoded of one alone stays."""
    family, context = family_of(program.accelerator), decoded.context
    for step in steps:
        begin = step.begin - steps[0].begin
        own = decoded if len(steps) == 1 else replace(decoded.slice(begin, begin + step.count), context=context)
        known = own if own is decoded and at_hand else None
        yield LaunchResult(step, program.accelerator, own.words, own.kind, context, 0, None, at_hand=known)
        if step is not steps[-1]:
            context = family.next_context(own)


@dataclass(frozen=True)
class _Measured:
    """The timings of launches that run as one, if they are wanted, and the tokens that the next one finds."""

    timings: Sequence[Timing]
    accounts: Sequence[CycleAccount]
    tokens: dict[str, int]


class _Clock:
    """Times launches in threads of its own, beside what else is done with them: it computes without Python's lock.

    Used as a context manager it ends when all are timed. An error of its own goes before one of a later launch, and of
    what the same launch computes.
    """

    def __init__(self, program: Program, *, timing: bool) -> None:
        self._accelerator, self._timing = program.accelerator, timing
        self._tokens = dict(program.initial_tokens)
        self._main_unit = compute_unit(program.accelerator)
        self._pool = ThreadPoolExecutor(_CLOCKS, "clock")
        self._before: Future[_Measured] | None = None
        self._running: list[tuple[int, Future[_Measured]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            self._settle(0)
        finally:
            self._pool.shutdown(cancel_futures=True)

    def measure(self, launches: Sequence[Launch], decoded: Decoded, *, beside: bool) -> Future[_Measured]:
        """Begins to time launches that run as one; ``beside`` what else is done, unless they are small or very large.

        Raises:
            SimulationError: an earlier launch cannot be timed, or this one, if it is not timed beside.
        """
        count = len(decoded)
        self._settle(max(_IN_FLIGHT - count, 0))
        task = partial(self._measure, launches, decoded, self._before)
        if self._timing and beside and count <= MANY and (count > _FEW or self._running):
            self._before = self._pool.submit(task)
            self._running.append((count, self._before))
        else:
            self._settle(0)
            self._before = Future()
            self._before.set_result(task())
        return self._before

    def _settle(self, most: int) -> None:
        """Wait until launches of at most so many instructions, which take memory, are being timed."""
        while self._running and sum(count for count, _ in self._running) > most:
            self._running.pop(0)[1].result()

    def _measure(self, launches: Sequence[Launch], decoded: Decoded, before: "Future[_Measured] | None") -> _Measured:
        if not self._timing:
            return _Measured([], [], self._tokens)
        sync = self._accelerator.synchronisation
        carried = sync.kind == "tokens" and sync.carry
        tokens = self._tokens if before is None else before.result().tokens if carried else {}
        measured = _in_launch(launches, lambda: family_of(self._accelerator).time(decoded, tokens))
        ends = part_ends(decoded, measured, [launch.count for launch in launches], self._main_unit)
        accounts = account_parts(decoded, measured, ends, self._main_unit)
        left = measured.tokens if carried else {}
        narrow = _narrow(measured)
        del measured
        _give_back(len(decoded))
        return _Measured(list(_parts(narrow, launches, decoded, ends)), accounts, left)


def part_ends(decoded: Decoded, timing: Timing, counts: Sequence[int], main_unit: str | None = None) -> list[int]:
    """Returns when the parts of a launch, of so many instructions, are over: when the compute unit is done with them.

    So each part has the time in which that unit computes for it. What other units do for the next one meanwhile, and
    for the one before, lies in the same cycles. One without work for the compute unit is over with its instructions.
    """
    if len(counts) == 1:
        return [timing.cycles]
    unit = main_unit or compute_unit(decoded.accelerator)
    mains = decoded.of_unit(unit)
    at, end, ends = 0, 0, list[int]()
    for count in counts[:-1]:
        main, own = mains[at : at + count], timing.end[at : at + count]
        end = max(end, min(int((own[main] if main.any() else own).max(initial=0)), timing.cycles))
        ends.append(end)
        at += count
    return [*ends, timing.cycles]


def _parts(timing: Timing, launches: Sequence[Launch], decoded: Decoded, ends: Sequence[int]) -> Iterator[Timing]:
    """The timing of each of the launches that ran as one, in the clock of the first."""
    if len(launches) == 1:
        yield timing
        return
    accelerator = decoded.accelerator
    unit_of = np.array([accelerator.units.index(each.unit) for each in accelerator.instructions])[decoded.kind]
    begin, before = 0, 0
    for launch, end in zip(launches, ends, strict=True):
        own = slice(begin, begin + launch.count)
        lengths = timing.end[own].astype(np.int64) - timing.start[own]
        busy = np.bincount(unit_of[own], lengths, len(accelerator.units)).astype(np.int64).tolist()
        yield replace(
            timing,
            start=timing.start[own],
            end=timing.end[own],
            waits={cause: lost[own] for cause, lost in timing.waits.items()},
            awaited={cause: back[own] for cause, back in timing.awaited.items()},
            cycles=end - before,
            busy=dict(zip(accelerator.units, busy, strict=True)),
        )
        begin, before = begin + launch.count, end


def _timed(
    launches: Sequence[tuple[list[LaunchResult], Future[_Measured]]], tokens: dict[str, int]
) -> tuple[tuple[LaunchResult, ...], int, dict[str, int]]:
    """The launches with their timing, on the program's clock; its cycles; the tokens that are left."""
    done, cycles = [], 0
    for results, future in launches:
        measured, started = future.result(), cycles
        if not measured.timings:
            done += results
            continue
        for result, timing, account in zip(results, measured.timings, measured.accounts, strict=True):
            done.append(replace(result, first_cycle=cycles, timing=timing, account=account, started=started))
            cycles, tokens = cycles + timing.cycles, timing.tokens
    return tuple(done), cycles, tokens


def _give_back(instructions: int) -> None:
    """Free memory after a step of simulating a large launch: the arrays of the next step are larger."""
    if instructions > MANY:
        release_free_memory()


def _narrow(timing: Timing) -> Timing:
    """The timing in the narrowest integers, without what the account alone needs: there may be tens of millions."""
    waits = {cause: narrowed(lost) for cause, lost in timing.waits.items()}
    start, end = narrowed(timing.start), narrowed(timing.end)
    awaited = {cause: narrowed(back) for cause, back in timing.awaited.items()}
    return replace(timing, start=start, end=end, waits=waits, awaited=awaited, blockers={}, activity=None)


def _in_launch(launches: Sequence[Launch], act: Callable[[], T]) -> T:
    """Give an error the name of its launch, of those that run as one."""
    try:
        return act()
    except SimulationError as error:
        at = error.instruction
        name = next(
            (each.name for each in launches if at is not None and at < each.begin + each.count), launches[0].name
        )
        raise SimulationError(
            f"launch {name}: {error.detail}", field=error.field, kind=error.kind, instruction=error.instruction
        ) from error


def _decode(program: Program, launches: Sequence[Launch]) -> Decoded:
    begin = launches[0].begin
    for launch in launches:
        if not 0 <= launch.begin <= launch.begin + launch.count <= len(program.words):
            raise SimulationError(
                f"launch {launch.name} covers instructions {launch.begin} to {launch.begin + launch.count}; "
                f"the program has {len(program.words)}",
                field=f"steps.{launch.name}",
            )
    words = program.words[begin : launches[-1].begin + launches[-1].count]
    return _in_launch(launches, lambda: decode(program.accelerator, words, begin))


def last_writer(program: Program, simulation: Simulation, address: int) -> int | None:
    """Returns index of the last instruction of the program that stored DRAM byte ``address``; None if none did."""
    family = family_of(program.accelerator)
    for result in reversed(simulation.launches):
        index = _last_store(family.boxes(result.decoded), address)
        if index >= 0:
            return result.launch.begin + index
    return None


def _last_store(boxes: Boxes, address: int) -> int:
    """Position in the launch of the last store over ``address``; -1 if there is none."""
    offset, stride = address - boxes.begin, boxes.row_stride
    row = np.where(stride > 0, np.minimum(offset // np.maximum(stride, 1), boxes.rows - 1), 0)
    within = offset - row * stride
    hits = np.flatnonzero(boxes.write & (offset >= 0) & (boxes.rows > 0) & (within >= 0) & (within < boxes.row_bytes))
    return int(boxes.instruction[hits].max(initial=-1))
