"""The order in which instructions are sent to a machine that starts them in order or looks few ahead: units overlap.

Such a machine starts nothing behind an instruction that waits: with the loads of a tile, its products and its store in
this order, the next loads wait for the store, and that for the products. Each unit keeps its own order here, and
so do instructions that share addresses, one of them writing; the others are merged in the order in which they would
start if each waited for these alone.
"""

import functools

import numpy as np

from accel.accelerator.document import Accelerator, HazardSync
from accel.accelerator.instructions import AnyInstruction, Compute, Copy
from accel.accelerator.memories import Dram
from accel.isa.decode import decode
from accel.isa.explicit.clock.timing import time_launch
from accel.isa.explicit.residency.direct_moves import direct_moves
from accel.util.arrays import Float64, Int64, Words
from accel.util.same_object import SameObject

WINDOW = 64
"""Instructions that are looked at: those of a few tiles."""
_DRAM = Dram(bus_bytes=16, read_latency=64)
PIPELINE = 16  # cycles of a compute instruction beside its iterations
_PORTS = 16  # of each memory: more than there are units


def arranged(words: Words, accelerator: Accelerator) -> tuple[Words, Int64]:
    """Returns a launch's words (n, words_each) as they are sent, and the place (n,) where each stood.

    They stay as they are where :func:`is_arranged` says so.
    """
    if not is_arranged(accelerator):
        return words, np.arange(len(words))
    start = time_launch(decode(_nominal(SameObject(accelerator)), words), {}).start
    order = np.argsort(start, kind="stable")  # what must wait for another starts behind it
    return words[order], order


def is_arranged(accelerator: Accelerator) -> bool:
    """Returns whether instructions are sent as they would start: those of units that start in order or look few ahead.

    They are not where one is of several words, waits for others, or is a layer; nor where results stay on the chip of a
    machine that waits for addresses, as the instructions that take over from stores and loads are in no order yet.
    """
    return _is_arranged(SameObject(accelerator))


@functools.lru_cache(maxsize=16)
def _is_arranged(accelerator: SameObject[Accelerator]) -> bool:
    document = accelerator.value
    sync = document.synchronisation
    if not {instruction.kind for instruction in document.instructions} <= {"copy", "compute"}:
        return False
    return sync.kind == "in_order" or (isinstance(sync, HazardSync) and not direct_moves(document))


@functools.lru_cache(maxsize=16)
def _nominal(accelerator: SameObject[Accelerator]) -> Accelerator:
    """The machine with units that wait for addresses alone, and cycles that are not the document's.

    The words of a program do not depend on its timing.
    """
    document = accelerator.value
    return document.model_copy(
        update={
            "synchronisation": HazardSync(window=WINDOW),
            "dram": _DRAM,
            "memories": tuple(memory.model_copy(update={"ports": _PORTS}) for memory in document.memories),
            "instructions": tuple(
                each.model_copy(update={"cycles": _nominal_cycles(each)}) for each in document.instructions
            ),
        }
    )


def nominal_copy(size: Float64, direction: str) -> Float64:
    """Returns the nominal cycles of copies of ``size`` bytes each (n,)."""
    return np.asarray(np.ceil(size / _DRAM.bus_bytes) + _DRAM.read_latency * (direction == "load"))


def _nominal_cycles(instruction: AnyInstruction) -> str:
    if isinstance(instruction, Copy):
        return "ceil(bytes / bus_bytes)" + " + read_latency" * (instruction.direction == "load")
    assert isinstance(instruction, Compute)
    return " * ".join([loop.extent for loop in instruction.loops] or ["1"]) + f" + {PIPELINE}"
