"""Gemmini as a family of instruction sets.

Its stages take streams of words; :func:`takes_decoded_launch` makes each one of launches.
"""

import functools
from collections.abc import Iterator

import numpy as np

from accel.accelerator.base import DocumentPart
from accel.accelerator.document import Accelerator
from accel.isa.cost_expressions import energy_of
from accel.isa.decode import Decoded
from accel.isa.family import (
    Cycles,
    DocumentChange,
    Family,
    HazardChecker,
    Machine,
    NoKernels,
    PreparedBySignatures,
    TimeLaunch,
    Timing,
    Variation,
)
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_changes import changes_of_gemmini, configuration_of_gemmini, derived_gemmini
from accel.isa.gemmini.document.gemmini_document import check_gemmini, parameters_of
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.function.stream_machine import StreamMachine, function_signature
from accel.isa.gemmini.gemmini_tiling_cost import prices_exactly, tiling_cost
from accel.isa.gemmini.stream.bounds_kernel import bounds_signature
from accel.isa.gemmini.stream.dram_races import race_signatures
from accel.isa.gemmini.stream.early_instructions import early_instructions, early_signature, may_run_on
from accel.isa.gemmini.stream.errata import errata_signature
from accel.isa.gemmini.stream.kept_weights import keeping_signature, with_kept_weights
from accel.isa.gemmini.stream.launch_context import LaunchContext, context_signature, takes_decoded_launch
from accel.isa.gemmini.stream.loop_expansion import expansion_signatures
from accel.isa.gemmini.stream.stream_check import GemminiHazardChecker, check_stream
from accel.isa.gemmini.timing import stream_timing
from accel.isa.gemmini.timing.gemmini_calibration import timing_model
from accel.isa.gemmini.timing.issue_order import facts_signature, issue_order, order_signature
from accel.isa.gemmini.timing.machine.machine import machine_signature, preparation_signature
from accel.isa.gemmini.timing.machine.memory.memory_hierarchy import warming_signature
from accel.isa.gemmini.timing.recorded_runs import replay
from accel.isa.gemmini.timing.stream_traffic import dram_accesses, effort_of, traffic_signatures, work_of
from accel.isa.kernels.compiled_kernels import Signature
from accel.isa.variations import Scaled, scaled_variations, time_of, with_fields
from accel.program.program_model import DramWindow
from accel.util.arrays import Bytes, Int64, Words


def _context_after(words: Words, parameters: GemminiParameters, context: LaunchContext) -> LaunchContext:
    return context.after(words, parameters)


def _runs_on(words: Words, parameters: GemminiParameters, context: LaunchContext, behind: Words) -> bool:
    return may_run_on(words, behind, parameters, context)


def _timing_of(decoded: Decoded, _tokens: dict[str, int]) -> Timing:
    timed = takes_decoded_launch(stream_timing.time_stream)(decoded)
    activity = functools.partial(stream_timing.activity_of, decoded, timed)
    return Timing(
        timed.start, timed.end, timed.waits, timed.cycles, timed.busy, {}, awaited=timed.awaited, activity=activity
    )


_RESOURCES = (
    Scaled("the bus", "{} bytes a cycle", ["/parameters/dma_bus_bytes"]),
    Scaled("the memory latency", "a memory latency of {} cycles", ["/parameters/memory_latency"], half=True),
    Scaled("the requests in flight", "{} requests in flight", ["/parameters/requests_in_flight"]),
    Scaled(
        "the reservation station",
        "twice its entries",
        [f"/parameters/{unit}_entries" for unit in ("load", "execute", "store")],
        ["reservation_station"],
    ),
)
_WITH_MEMORY = (
    *(each for each in _RESOURCES if each.fields != ["/parameters/memory_latency"]),
    Scaled("the L2", "an L2 of {} bytes", ["/parameters/memory/l2_bytes"]),
    Scaled("the latency of the L2", "an L2 that answers after {} cycles", ["/parameters/memory/l2_latency"], half=True),
    Scaled("the latency of DRAM", "a line from DRAM in {} cycles", ["/parameters/memory/dram_latency"], half=True),
)
_PROCESSOR = Scaled(
    "the processor", "an instruction every {} cycles", ["/parameters/core/issue_cycles"], ["fetch"], half=True
)


class GemminiFamily(NoKernels, PreparedBySignatures):
    """Where each part of :class:`accel.isa.family.Family` stands for Gemmini."""

    name = "gemmini"

    parameters: type[DocumentPart] = GemminiParameters
    check = staticmethod(check_gemmini)

    configuration = staticmethod(configuration_of_gemmini)
    derive = staticmethod(derived_gemmini)

    tiling_cost = staticmethod(tiling_cost)
    prices_exactly = staticmethod(prices_exactly)

    takes_windows = True
    reserved_bytes = 1  # a load from address 0 brings zeros
    next_context = staticmethod(takes_decoded_launch(_context_after))
    check_launch = staticmethod(takes_decoded_launch(check_stream))
    effort = staticmethod(takes_decoded_launch(effort_of))
    boxes = staticmethod(takes_decoded_launch(dram_accesses))

    time = staticmethod(_timing_of)
    work = staticmethod(takes_decoded_launch(work_of))
    energy = staticmethod(energy_of)
    timing_model = staticmethod(timing_model)
    replay = staticmethod(replay)

    def first_context(self, accelerator: Accelerator, windows: tuple[DramWindow, ...]) -> LaunchContext:
        """Returns the registers after power-on."""
        return LaunchContext.fresh(parameters_of(accelerator), windows)

    def variations(self, accelerator: Accelerator) -> list[Variation]:
        """Returns what a Gemmini can be timed with."""
        parameters = parameters_of(accelerator)
        resources = _RESOURCES if parameters.memory is None else _WITH_MEMORY
        if parameters.core is not None:
            resources = (*resources, _PROCESSOR)
        return list(scaled_variations(accelerator, self, resources, self._timed))

    def alone(self, accelerator: Accelerator) -> TimeLaunch | None:
        """Returns what times a launch without the document's processor and memory; None where it has neither."""
        parameters = parameters_of(accelerator)
        if parameters.core is None and parameters.memory is None:
            return None
        changed = with_fields(accelerator, self, {"/parameters/core": None, "/parameters/memory": None})
        return None if changed is None else self._timed(changed)

    def cold(self, accelerator: Accelerator) -> Accelerator | None:
        """Returns the document by which a launch finds nothing in the L2; None where it has none."""
        if parameters_of(accelerator).memory is None:
            return None
        return with_fields(accelerator, self, {"/parameters/memory/warm": False})

    def cache_bytes(self, accelerator: Accelerator) -> int:
        """Returns the bytes of the L2; 0 where there is none."""
        memory = parameters_of(accelerator).memory
        return 0 if memory is None else memory.l2_bytes

    def _timed(self, changed: Accelerator) -> TimeLaunch:
        if self.time is not _timing_of:  # a plug-in's own
            return time_of(self, changed)
        cycles = takes_decoded_launch(stream_timing.cycles_of)
        return lambda decoded, _tokens: Cycles(cycles(decoded.on(changed)), {})

    def changes(self, accelerator: Accelerator) -> Iterator[DocumentChange]:
        """Yields larger memories, and a larger mesh."""
        return changes_of_gemmini(accelerator)

    def arranged(self, words: Words, accelerator: Accelerator) -> tuple[Words, Int64]:
        """Returns the words in the order in which the controllers wait least, with weights kept in the mesh."""
        parameters = parameters_of(accelerator)
        kept = with_kept_weights(words, parameters.dim)
        order = issue_order(kept, parameters)
        return kept[order], order

    def fence(self, accelerator: Accelerator) -> Words | None:
        """Returns the instruction that stands for the processor's fence; None where the document leaves it out."""
        named = any(instruction.name == rocc.FENCE_NAME for instruction in accelerator.instructions)
        return np.array([rocc.FENCE, 0, 0], np.uint64) if named else None

    early = staticmethod(takes_decoded_launch(early_instructions))

    def runs_on(self, before: Decoded, launch: Decoded) -> bool:
        """Returns whether the hardware does what the instructions say where they follow one another."""
        return takes_decoded_launch(_runs_on)(before, launch.words)

    def machine(self, accelerator: Accelerator) -> Machine:
        """Returns a machine that takes decoded launches."""
        return GemminiMachine(parameters_of(accelerator))

    def hazard_checker(self, accelerator: Accelerator, tokens: dict[str, int], dram_bytes: int) -> HazardChecker:
        """Returns a checker of races in DRAM, and of reads of what nothing wrote."""
        return GemminiHazardChecker(accelerator, dram_bytes)

    def token_queues(self, accelerator: Accelerator) -> list[str]:
        """There are none."""
        return []

    def signatures(self) -> tuple[Signature, ...]:
        """Returns the kernels that simulations run."""
        return (
            function_signature(),
            machine_signature(),
            preparation_signature(),
            *stream_timing.telling_signatures(),
            keeping_signature(),
            facts_signature(),
            order_signature(),
            early_signature(),
            *race_signatures(),
            warming_signature(),
            bounds_signature(),
            errata_signature(),
            *traffic_signatures(),
            context_signature(),
            *expansion_signatures(),
        )


class GemminiMachine:
    """A :class:`StreamMachine` that takes decoded launches."""

    def __init__(self, parameters: GemminiParameters) -> None:
        self._machine = StreamMachine(parameters)

    def run(self, decoded: Decoded, dram: Bytes) -> None:
        """Run a launch on ``dram`` (bytes,).

        Raises:
            SimulationError: an instruction that is out of range; nothing has run then.
        """
        takes_decoded_launch(self._run)(decoded, dram)

    def _run(self, words: Words, _parameters: GemminiParameters, context: LaunchContext, dram: Bytes) -> None:
        self._machine.run(words, dram, context.windows if len(context.windows) else None)


FAMILY: Family = GemminiFamily()
"""The entry point ``gemmini`` of the group ``cyclops.isa``."""
