"""Loads of a launch put into another order: what reads no result of a launch just before goes first."""

from collections.abc import Callable, Iterator

import numpy as np

from accel.accelerator.instructions import Copy
from accel.isa.decode import Decoded, decode
from accel.isa.family import Boxes, Family, JoinsLaunches, ReadDram
from accel.joining.token_stream import TokenStream, token_mask, token_stream
from accel.util.arrays import Bools, Int64, Words

ReadsResults = Callable[[int, int], bool]
"""Whether bytes ``[begin, end)`` of DRAM may be results of launches just before."""


def early_loads(
    stream: TokenStream, results: ReadsResults, family: Family, read: ReadDram
) -> tuple[TokenStream, Int64]:
    """Returns the launch with its first loads in a better order, and the place (n,) where each instruction stood.

    Until a unit waits for the first time in its own launch, loads between two tokens of one unit may be in any order,
    if they fill different elements: what waits for a result of the launch before keeps none waiting then that does not.
    The tokens stay where they are.
    """
    assert isinstance(family, JoinsLaunches)
    places = np.arange(len(stream.decoded))
    runs = [run for run in _runs(stream) if len(run) > 1]
    if not runs:
        return stream, places
    rows = np.array([row for run in runs for row in run], np.int64)
    boxes = stream.decoded.derived(family.boxes)
    late = reads_of_results(boxes.of(np.isin(boxes.instruction, rows)), len(stream.decoded), results)
    words = stream.decoded.words.copy()
    for run in runs:
        order = sorted(run, key=lambda row: bool(late[row]))
        mask = _common_mask(stream, run)
        if order != run and mask is not None and fill_apart(stream.decoded, np.array(run), family, read):
            words[run] = (stream.decoded.words[order] & ~mask) | (words[run] & mask)
            places[run] = order
    if (places == np.arange(len(places))).all():
        return stream, places
    return token_stream(decode(stream.decoded.accelerator, words, stream.decoded.first)), places


def _common_mask(stream: TokenStream, rows: list[int]) -> Words | None:
    """The bits of tokens, where they are the same in all of ``rows``."""
    accelerator = stream.decoded.accelerator
    masks = [
        token_mask(accelerator, accelerator.instructions[kind]) for kind in set(stream.decoded.kind[rows].tolist())
    ]
    return masks[0] if all((mask == masks[0]).all() for mask in masks) else None


def _runs(stream: TokenStream) -> Iterator[list[int]]:
    """Loads of a unit one after the other, of which at most the first takes tokens, and the last sends some."""
    instructions = stream.decoded.accelerator.instructions
    for rows in stream.rows:
        run: list[int] = []
        for row in rows:
            if stream.pops[row]:
                break
            instruction = instructions[stream.decoded.kind[row]]
            if isinstance(instruction, Copy) and instruction.direction == "load":
                run.append(row)
                if not stream.pushes[row]:
                    continue
            yield run
            run = []
        yield run


def reads_of_results(boxes: Boxes, count: int, results: ReadsResults) -> Bools:
    """Returns which of ``count`` instructions, whose accesses of DRAM these are, read results of launches before."""
    late, (begins, ends) = np.zeros(count, np.bool_), boxes.hulls()
    for box in np.flatnonzero(~boxes.write).tolist():
        late[boxes.instruction[box]] |= results(int(begins[box]), int(ends[box]))
    return late


def fill_apart(decoded: Decoded, rows: Int64, family: JoinsLaunches, read: ReadDram) -> bool:
    """Returns whether no two of the loads ``rows`` of a launch fill the same elements."""
    touches = family.touches(decoded, rows, read)
    order = np.lexsort((touches.begin, touches.memory))
    memory, begin, end = touches.memory[order], touches.begin[order], touches.end[order]
    return bool(((memory[1:] != memory[:-1]) | (begin[1:] >= end[:-1])).all())
