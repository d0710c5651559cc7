"""A launch run in another order than the program's: any that units and tokens allow, as odd hardware might."""

import collections
from collections.abc import Sequence

import numpy as np

from accel.isa.decode import Decoded
from accel.isa.vta.function.vta_machine import VtaMachine
from accel.util.arrays import aligned_zeros


def at_finish(
    decoded: Decoded,
    machine: VtaMachine,
    dram: np.ndarray,
    tokens: dict[str, int],
    order: Sequence[int],
    seed: int | None,
) -> np.ndarray | None:
    """DRAM at the moment when FINISH has run; None if the launch cannot go on.

    ``order`` says which unit goes first if several can; with a ``seed`` it changes at every step. Instructions that
    FINISH does not wait for and whose unit comes late have not run yet.
    """
    units, instructions = decoded.accelerator.units, decoded.accelerator.instructions
    random = np.random.default_rng(seed)
    queues = collections.Counter(tokens)
    pending = {unit: [i for i in range(len(decoded)) if instructions[decoded.kind[i]].unit == unit] for unit in units}
    dram = dram_copy(dram)
    while True:
        turn = random.permutation(len(units)) if seed is not None else order
        ready = [units[u] for u in turn if pending[units[u]] and _can_run(decoded, pending[units[u]][0], queues)]
        if not ready:
            return None
        index = pending[ready[0]].pop(0)
        machine.run(decoded.slice(index, index + 1), dram)
        instruction = instructions[decoded.kind[index]]
        for other, field in instruction.tokens.pop.items():
            queues[f"{other}_to_{instruction.unit}"] -= int(decoded.columns[field][index])
        for other, field in instruction.tokens.push.items():
            queues[f"{instruction.unit}_to_{other}"] += int(decoded.columns[field][index])
        if instruction.kind == "finish":
            return dram


def dram_copy(dram: np.ndarray) -> np.ndarray:
    copy = aligned_zeros(len(dram))
    copy[...] = dram
    return copy


def _can_run(decoded: Decoded, index: int, queues: collections.Counter) -> bool:
    instruction = decoded.accelerator.instructions[decoded.kind[index]]
    return all(
        not decoded.columns[field][index] or queues[f"{other}_to_{instruction.unit}"] > 0
        for other, field in instruction.tokens.pop.items()
    )
