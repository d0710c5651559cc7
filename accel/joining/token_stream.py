"""A launch of a machine with tokens as the joining of launches sees it: units, tokens, and what it leaves out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import AnyInstruction, BitField
from accel.isa.decode import Decoded
from accel.util.arrays import Int64, Words

_WORD = 64  # bits


class Queue(NamedTuple):
    """The queue of tokens from one unit to another, by their indices."""

    sender: int
    receiver: int


class StreamError(Exception):
    """A launch that cannot be joined: its tokens do not begin and end at none, or it does not end with FINISH."""


@dataclass(frozen=True)
class TokenStream:
    """The instructions of a launch but for the one that ends it, and the tokens that they send and take without it.

    Attributes:
        decoded: all its instructions.
        count: how many are not its end, the first ones.
        unit: (count,) their units.
        rows: of each unit, its instructions.
        pops: (count,) queues from which each takes a token.
        pushes: (count,) queues to which each sends one.
        drains: what the end takes: instruction and queue, whose token is not sent where there is no end.
    """

    decoded: Decoded
    count: int
    unit: Sequence[int]
    rows: Sequence[Sequence[int]]
    pops: Sequence[Sequence[Queue]]
    pushes: Sequence[Sequence[Queue]]
    drains: Sequence[tuple[int, Queue]]

    def taking(self, begin: int) -> list[int]:
        """Returns the instructions from ``begin`` on that take a token."""
        return [row for row in range(begin, self.count) if self.pops[row]]

    def edges(self) -> dict[Queue, list[tuple[int, int]]]:
        """Returns of each queue who sends each token, and who takes it."""
        sent, taken = dict[Queue, list[int]](), dict[Queue, list[int]]()
        for tokens, found in ((self.pushes, sent), (self.pops, taken)):
            for row, queues in enumerate(tokens):
                for queue in queues:
                    found.setdefault(queue, []).append(row)
        return {queue: list(zip(rows, taken[queue], strict=True)) for queue, rows in sent.items()}


def queues_of(accelerator: Accelerator) -> frozenset[Queue]:
    """Returns the queues to which some instruction sends, and from which some takes."""
    units, sent, taken = accelerator.units, set[Queue](), set[Queue]()
    for instruction in accelerator.instructions:
        own = units.index(instruction.unit)
        sent.update(Queue(own, units.index(other)) for other in instruction.tokens.push)
        taken.update(Queue(units.index(other), own) for other in instruction.tokens.pop)
    return frozenset(sent & taken)


def token_field(accelerator: Accelerator, instruction: AnyInstruction, queue: Queue, *, push: bool) -> BitField | None:
    """Returns the field by which an instruction sends to a queue, or takes from it; None where it has none."""
    other = accelerator.units[queue.receiver if push else queue.sender]
    name = (instruction.tokens.push if push else instruction.tokens.pop).get(other)
    return next((each for each in instruction.fields if each.name == name), None)


def token_stream(decoded: Decoded) -> TokenStream:
    """Returns a launch that begins and ends without tokens.

    Raises:
        StreamError: it does not, or FINISH is not its last instruction.
    """
    accelerator, total = decoded.accelerator, len(decoded)
    ends = decoded.rows(accelerator.finish) if accelerator.finish is not None else np.zeros(0, np.int64)
    if ends.tolist() != ([total - 1] if accelerator.finish is not None else []):
        raise StreamError("FINISH is not its last instruction")
    units = np.array([accelerator.units.index(each.unit) for each in accelerator.instructions])[decoded.kind]
    pops, pushes = _tokens(decoded, push=False), _tokens(decoded, push=True)
    count = total - len(ends)
    drains = []
    for queue in pops[count] if len(ends) else ():
        last = max((row for row in range(count) if queue in pushes[row]), default=-1)
        if last < 0:
            raise StreamError("FINISH takes a token that nobody sends")
        pushes[last].remove(queue)
        drains.append((last, queue))
    if len(ends) and pushes[count]:
        raise StreamError("FINISH sends a token")
    _check_balanced(pops[:count], pushes[:count])
    rows = [np.flatnonzero(units[:count] == unit).tolist() for unit in range(len(accelerator.units))]
    return TokenStream(
        decoded,
        count,
        units[:count].tolist(),
        rows,
        pops[:count],
        pushes[:count],
        drains,
    )


def token_mask(accelerator: Accelerator, instruction: AnyInstruction) -> Words:
    """Returns the bits (words_each,) of an instruction's tokens."""
    names = {*instruction.tokens.pop.values(), *instruction.tokens.push.values()}
    mask = np.zeros(accelerator.word_bits // _WORD, np.uint64)
    for each in instruction.fields:
        if each.name in names:
            word, shift = divmod(each.lsb, _WORD)
            mask[word] |= np.uint64(((1 << each.bits) - 1) << shift)
    return mask


def _tokens(decoded: Decoded, *, push: bool) -> list[list[Queue]]:
    accelerator, found = decoded.accelerator, [list[Queue]() for _ in range(len(decoded))]
    for instruction in accelerator.instructions:
        tokens = instruction.tokens.push if push else instruction.tokens.pop
        rows: Int64 = decoded.rows(instruction) if tokens else np.zeros(0, np.int64)
        own = accelerator.units.index(instruction.unit)
        for other, name in tokens.items():
            at = accelerator.units.index(other)
            queue = Queue(own, at) if push else Queue(at, own)
            for row in rows[decoded.column(name)[rows] != 0].tolist():
                found[row].append(queue)
    return found


def _check_balanced(pops: Sequence[Sequence[Queue]], pushes: Sequence[Sequence[Queue]]) -> None:
    counts: dict[Queue, int] = {}
    for change, tokens in ((1, pushes), (-1, pops)):
        for queues in tokens:
            for queue in queues:
                counts[queue] = counts.get(queue, 0) + change
    if any(counts.values()):
        raise StreamError("it leaves tokens, or takes more than it sends")
