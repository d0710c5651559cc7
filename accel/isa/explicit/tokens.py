"""Token queues: which there are, and what each instruction takes from them and sends to them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.accelerator.synchronisation import TokenSync
from accel.errors import SimulationError
from accel.isa.decode import Decoded
from accel.isa.explicit.costs import doing

Int64 = npt.NDArray[np.int64]


def queues(accelerator: Accelerator) -> list[tuple[str, str]]:
    """The queues, from a unit to a unit, that some instruction pops from or pushes to, by the order of the units."""
    found = set()
    for instruction in accelerator.instructions:
        found |= {(other, instruction.unit) for other in instruction.tokens.pop}
        found |= {(instruction.unit, other) for other in instruction.tokens.push}
    order = accelerator.units.index
    return sorted(found, key=lambda queue: (order(queue[0]), order(queue[1])))


def queue_names(accelerator: Accelerator) -> list[str]:
    """Their names, such as ``load_to_compute``, in the order of :func:`queues`."""
    return ["_to_".join(queue) for queue in queues(accelerator)]


def token_counts(accelerator: Accelerator, tokens: dict[str, int]) -> Int64:
    """Counters (queues,) from their names.

    Raises:
        SimulationError: a queue that the accelerator does not have, or a count beyond its counter.
    """
    names, limit = queue_names(accelerator), token_limit(accelerator)
    for name, count in tokens.items():
        if name not in names:
            known = ", ".join(names) or "none"
            raise SimulationError(f"no token queue is called {name}; there are {known}", field="tokens")
        if not 0 <= count <= limit:
            raise SimulationError(f"{count} tokens in {name}; its counter holds 0 to {limit}", field="tokens")
    return np.array([tokens.get(name, 0) for name in names], np.int64)


def token_limit(accelerator: Accelerator) -> int:
    """Where the counters stop; 0 where units do not wait by tokens."""
    sync = accelerator.synchronisation
    return sync.limit if isinstance(sync, TokenSync) else 0


@dataclass(frozen=True)
class Transfers:
    """Tokens by instruction: instruction i takes or sends one at each queue of ``queue[start[i]:start[i + 1]]``."""

    start: Int64
    queue: Int64

    def of(self, index: int) -> list[int]:
        """The queues of one instruction."""
        return [int(queue) for queue in self.queue[self.start[index] : self.start[index + 1]]]


def pops_of(decoded: Decoded) -> Transfers:
    """The tokens that each instruction waits for, and takes as it starts."""
    return _transfers(decoded, pops=True)


def pushes_of(decoded: Decoded) -> Transfers:
    """The tokens that each instruction sends as it ends."""
    return _transfers(decoded, pops=False)


def _transfers(decoded: Decoded, *, pops: bool) -> Transfers:
    numbers = {queue: number for number, queue in enumerate(queues(decoded.accelerator))}
    rows, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for instruction, words in doing(decoded) if numbers else ():
        for other, field in (instruction.tokens.pop if pops else instruction.tokens.push).items():
            queue = (other, instruction.unit) if pops else (instruction.unit, other)
            sent = words.rows[words.column(field) != 0]
            rows.append(sent)
            found.append(np.full(len(sent), numbers[queue], np.int64))
    where, queue_of = np.concatenate(rows), np.concatenate(found)
    order = np.lexsort((queue_of, where))
    start = np.searchsorted(where[order], np.arange(len(decoded) + 1)).astype(np.int64)
    return Transfers(start, np.ascontiguousarray(queue_of[order]))
