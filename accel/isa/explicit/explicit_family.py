"""Family ``explicit``: everything about the instruction set is in the document; what its launches need at least."""

from collections.abc import Iterable, Iterator

import numpy as np

from accel.accelerator.base import DocumentPart
from accel.accelerator.contraction import contraction, factors
from accel.accelerator.document import Accelerator, HazardSync
from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.memories import Dram
from accel.accelerator.timing_model import TimingModel
from accel.errors import InvalidAccelerator, SimulationError
from accel.isa.decode import Decoded, decode, encoding_arrays
from accel.isa.document_changes import larger_memories
from accel.isa.explicit.clock.timing import queue_names, time_launch, timing_signatures, units_of, variations_of
from accel.isa.explicit.costs import bus_cycles_of, costs_of, cycles_of
from accel.isa.explicit.document_parameters import ExplicitParameters
from accel.isa.explicit.document_support import check_explicit
from accel.isa.explicit.document_tiling_cost import tiling_cost
from accel.isa.explicit.hazards.accesses import extents_of, touches_of
from accel.isa.explicit.hazards.box_hazards import ExplicitHazardChecker, hazard_signatures
from accel.isa.explicit.hazards.boxes import boxes_of, check_bounds, effort_of
from accel.isa.explicit.issue_order import arranged
from accel.isa.explicit.operations import executions_of
from accel.isa.explicit.residency.direct_moves import direct_moves, with_free_loads
from accel.isa.explicit.residency.launch_buffers import buffers_apart
from accel.isa.explicit.residency.resident_words import ExplicitResidency
from accel.isa.explicit.residency.tile_slices import needed_loads, tile_slices
from accel.isa.explicit.tile_replay_kernel import replay_signatures
from accel.isa.family import (
    DocumentChange,
    Family,
    KernelSource,
    Machine,
    NoContext,
    PreparedBySignatures,
    Variation,
    Work,
    dram_traffic,
)
from accel.isa.kernels.compiled_kernels import Signature
from accel.util.arrays import Int64, Words


def work_of(decoded: Decoded) -> Work:
    """The work of a launch by the document's costs.

    The lower bound is the busiest unit's, as a unit does one instruction at a time, or that of the bus which units
    share, as that does one copy at a time. A bus that is not shared is told apart: reads and writes have a channel each
    there, so the larger of the two counts; but not for more than the busiest unit that copies, as the cycles of copies
    are what the document says, which may be less than their bytes take at ``bus_bytes`` a cycle.
    """
    accelerator, cycles, units = decoded.accelerator, cycles_of(decoded), units_of(decoded)
    busy = np.bincount(units, weights=cycles, minlength=len(accelerator.units)).astype(np.int64)
    contract, compute, macs = 0, 0, 0.0
    try:
        gemm = contraction(accelerator)
    except InvalidAccelerator:
        gemm = None  # a program for it may still be run
    if gemm is not None:
        compute = int(busy[accelerator.units.index(gemm.instruction.unit)])
        for executions in executions_of(decoded):
            instruction, each = executions.sort.instruction, gemm.macs_of(executions.sort.meaning)
            if executions.sort.layer is None and isinstance(instruction, Compute) and each:
                contract += int(cycles[executions.words.rows].sum())
                iterations = extents_of(executions.words, instruction.loops).prod(axis=0, dtype=np.float64)
                macs += float(iterations.sum()) * each
        if accelerator.layers:
            of_layers, at_best = _layers(decoded, cycles)
            contract, macs = contract + of_layers, macs + at_best
    beats = bus_cycles_of(decoded)
    shared, boxes = int(beats.sum()), boxes_of(decoded)
    alone = boxes.of(beats[boxes.instruction] == 0)
    copying = busy[np.unique(units[alone.instruction])].max(initial=0)
    bus = max(shared, min(int(copying), -(-max(dram_traffic(alone)) // accelerator.dram.bus_bytes)))
    bound = max(int(busy.max(initial=0)), shared)
    return Work(contract, compute, bus, bound, macs / contract if contract else None)


def _layers(decoded: Decoded, cycles: Int64) -> tuple[int, float]:
    """Cycles of the layers that sum products; and how much they would multiply in these if the bus cost nothing.

    An instruction of a layer takes its data and its products in the same cycles, so its own say nothing of the rate.
    """
    free = {"dram": Dram(bus_bytes=1 << 30, read_latency=0, alignment_bytes=decoded.accelerator.dram.alignment_bytes)}
    fast = cycles_of(decoded.on(decoded.accelerator.model_copy(update=free)))
    contract, at_best = 0, 0.0
    for executions in executions_of(decoded):
        sort, rows = executions.sort, executions.words.rows
        if sort.layer is None or sort.layer.sums is None or factors(sort.meaning.typed.statement.value) is None:
            continue
        iterations = extents_of(executions.words, sort.layer.instruction.loops).prod(axis=0, dtype=np.float64)
        contract += int(cycles[rows].sum())
        at_best += float((iterations * sort.points * cycles[rows] / fast[rows]).sum())
    return contract, at_best


def energy_of(decoded: Decoded) -> float | None:
    """Returns picojoules of a launch, or None where the document gives no instruction an energy.

    Raises:
        SimulationError: a cost divides by zero, or is no finite number.
    """
    known = any(instruction.energy is not None for instruction in decoded.accelerator.instructions)
    return float(costs_of(decoded, "energy").sum()) if known else None


def timing_model(accelerator: Accelerator, launches: Iterable[Decoded] = ()) -> TimingModel:  # noqa: ARG001
    """Returns what is known of the cycle counts: that they follow the document, whatever the program."""
    ways = {
        "in_order": "instructions that start in the order of the program",
        "hazards": "units that wait for addresses",
        "tokens": "units that wait for tokens",
    }
    return TimingModel(
        statement=f"Cycles follow the costs that the document gives, and its {ways[accelerator.synchronisation.kind]}; "
        f"nothing was compared with hardware. {_bus(accelerator)}",
        calibrated=False,
        exact=0,
        of=0,
        worst_percent=None,
        outside=[],
    )


def _bus(accelerator: Accelerator) -> str:
    if not accelerator.shares_bus:
        return "Instructions do not share the bus: a copy takes what its cost says."
    units = " and ".join(accelerator.dram.shared_by)
    return (
        f"Copies of {units} share the bus: of those that want the same cycle of it, the one that started first has it."
    )


def changes_of(accelerator: Accelerator) -> Iterator[DocumentChange]:
    """Yields larger memories; and where instructions start in order, units apart, which lets contexts overlap."""
    yield from larger_memories(accelerator)
    if accelerator.synchronisation.kind == "in_order":
        apart = HazardSync()
        made = accelerator.model_copy(update={"synchronisation": apart})
        change = f"units that run apart, in a window of {apart.window} instructions"
        yield DocumentChange("units-apart", "the order of its instructions", change, lambda: made)


def idle_words(accelerator: Accelerator) -> dict[str, Words]:
    """Returns for units the words (words_each,) of their copy of nothing that takes the fewest cycles.

    Copies whose size is no field, and those whose cost is no number for nothing, are none.
    """
    values, found = encoding_arrays(accelerator).values, dict[str, tuple[int, Words]]()
    for number, instruction in enumerate(accelerator.instructions):
        if not isinstance(instruction, Copy) or instruction.sequence:
            continue
        fields = instruction.copy_fields
        if fields.rows is None and fields.columns is None:
            continue
        try:
            decoded = decode(accelerator, values[number][np.newaxis])
            cycles = int(cycles_of(decoded)[0])
        except SimulationError:
            continue
        if decoded.kind[0] == number and (instruction.unit not in found or cycles < found[instruction.unit][0]):
            found[instruction.unit] = cycles, values[number]
    return {unit: words for unit, (_, words) in found.items()}


class ExplicitFamily(NoContext, PreparedBySignatures):
    """Where each part of :class:`accel.isa.family.Family` stands for machines that are wholly in their document.

    What needs the compiler is imported where it is asked for: a document is checked without it.
    """

    name = "explicit"

    parameters: type[DocumentPart] = ExplicitParameters
    check = staticmethod(check_explicit)

    tiling_cost = staticmethod(tiling_cost)

    touches = staticmethod(touches_of)
    idle_words = staticmethod(idle_words)
    arranged = staticmethod(arranged)

    check_launch = staticmethod(check_bounds)
    effort = staticmethod(effort_of)
    boxes = staticmethod(boxes_of)
    hazard_checker = ExplicitHazardChecker

    token_queues = staticmethod(queue_names)
    time = staticmethod(time_launch)
    work = staticmethod(work_of)
    energy = staticmethod(energy_of)
    timing_model = staticmethod(timing_model)

    def orders_accesses(self, accelerator: Accelerator) -> bool:
        """Returns whether units start in order, or wait for addresses: both do for what is before in the program."""
        return accelerator.synchronisation.kind != "tokens"

    def keeps_results(self, accelerator: Accelerator) -> bool:
        """Returns whether an instruction leaves in a memory what a store and a load would, and no token orders it."""
        return self.orders_accesses(accelerator) and bool(direct_moves(accelerator))

    while_results_stay = staticmethod(with_free_loads)
    residency = staticmethod(ExplicitResidency)
    buffers_apart = staticmethod(buffers_apart)
    tile_slices = staticmethod(tile_slices)
    needed_loads = staticmethod(needed_loads)

    def variations(self, accelerator: Accelerator) -> list[Variation]:
        """Returns what a machine of the document can be timed with."""
        return variations_of(accelerator, self)

    def changes(self, accelerator: Accelerator) -> Iterator[DocumentChange]:
        """Yields larger memories, and units apart."""
        return changes_of(accelerator)

    def machine(self, accelerator: Accelerator) -> Machine:
        """Returns a machine whose kernels TVM compiles."""
        from accel.isa.explicit import document_function

        return document_function.ExplicitMachine(accelerator)

    def kernel_sources(self, accelerator: Accelerator) -> tuple[KernelSource, ...]:
        """Returns the source of the kernel of a document's instructions."""
        from accel.isa.explicit import document_function

        return (document_function.source_of(accelerator),)

    def kernel_source(self, text: str) -> KernelSource:
        """Returns the source of the kernel of a text."""
        from accel.isa.explicit import document_function

        return document_function.source_of_text(text)

    def signatures(self) -> tuple[Signature, ...]:
        """Returns the kernels that simulations and prices of tilings run."""
        return (*timing_signatures(), *hazard_signatures(), *replay_signatures())


FAMILY: Family = ExplicitFamily()
"""The entry point ``explicit`` of the group ``cyclops.isa``."""
