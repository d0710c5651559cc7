"""What a deadlock is told as: which unit waits at which instruction for which token."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from accel.errors import SimulationError
from accel.isa.decode import Decoded

Int64 = npt.NDArray[np.int64]


def deadlock(
    decoded: Decoded, waiting: Sequence[int], pops: Int64, queues: Sequence[str], tokens: Int64
) -> SimulationError:
    """The error of a launch that cannot go on.

    Args:
        decoded: the launch.
        waiting: each stuck unit's next instruction.
        pops: the queues (n, 2) that each instruction waits for, or -1.
        queues: their names.
        tokens: what is in them (queues,).
    """
    told = []
    for index in waiting:
        instruction = decoded.accelerator.instructions[decoded.kind[index]]
        missing = [queues[queue] for queue in pops[index] if queue >= 0 and tokens[queue] == 0]
        if missing:
            told.append(
                f"{instruction.unit} waits at instruction {decoded.first + index} ({instruction.name}) for a token of "
                f"{' and '.join(missing)}"
            )
    at = decoded.first + min(waiting)
    return SimulationError("deadlock: " + "; ".join(told), field=f"instruction:{at}", kind="deadlock", instruction=at)
