"""Tiles of programs that read operands again for other tiles: with products, or block by block, by what that costs.

A sum of products reads each operand once for every tile of the other one's axes, so that tiles decide how many bytes
move. They are priced by these, and by the instructions that begin.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from accel.accelerator.document import Accelerator
from accel.expression.syntax_tree import Statement
from accel.lowering.vector.tiles.program_buffers import Statements, placed
from accel.lowering.vector.tiles.program_tiles import fits, lanes_of
from accel.region.vector_program import UNIT, VectorProgram, VectorTensor
from accel.util.arrays import Array, Float64

_BEGINNING = 32  # cycles that the beginning and the end of an instruction are worth
_MOST_TRIED = 4096  # tiles that are tried for more of them, the cheapest first
_COUNTS = sorted({base << power for base in (1, 3) for power in range(24)})  # of tiles along an axis


def priced_programs(whole: Statements, accelerator: Accelerator, most: int) -> list[tuple[float, VectorProgram]]:
    """Returns a program in tiles, and blocks, that fit its memories, with the cycles that are estimated for it.

    The cheapest come first; they are ``most`` at most. None is in all axes at most as large as one before it.
    """
    tiles = _candidates(whole)
    prices = _prices(whole, tiles, accelerator)
    cut_all = placed(whole, tuple(range(len(whole.extents))))
    roomy = _room(cut_all.on_chip, tiles, accelerator)
    lanes = lanes_of(whole.tensors.values(), accelerator)
    found: list[tuple[float, VectorProgram]] = []
    uncut: dict[tuple[int, ...], VectorProgram] = {}
    order = [int(number) for number in np.argsort(prices, kind="stable") if roomy[number]]
    for place, number in enumerate(order):
        if place >= _MOST_TRIED and found:
            break
        tile = tuple(int(part) for part in tiles[number])
        if any(tile[axis] % count for axis, count in lanes.items()):
            continue
        if any(all(part <= large for part, large in zip(tile, known.tile, strict=True)) for _, known in found):
            continue
        cut = tuple(axis for axis, extent in enumerate(whole.extents) if tile[axis] < extent)
        if cut not in uncut:
            uncut[cut] = placed(whole, cut)
        made = replace(uncut[cut], tile=tile)
        if fits(made, tile, accelerator):
            found.append((float(prices[number]), made))
            if len(found) == most:
                break
    return found


def _candidates(whole: Statements) -> Array:
    """Tiles [n, axes], of some counts along each axis that may be cut.

    They have fewer elements at the end of one axis at most, but for that of blocks: a program has its whole tiles, and
    once more those of what is left.
    """
    blocks = None if whole.stream is None else whole.stream.axis
    options = [
        sorted({-(-extent // count) for count in _COUNTS if count < 2 * extent})
        if axis in whole.rows or axis == blocks
        else [extent]
        for axis, extent in enumerate(whole.extents)
    ]
    every = [*itertools.product(*options)]
    tiles = np.array(every, dtype=np.int64).reshape(len(every), len(whole.extents))  # a program of numbers has no axes
    left = np.array(whole.extents) % tiles
    if blocks is not None:
        left[:, blocks] = 0
    return np.asarray(tiles[np.count_nonzero(left, axis=1) <= 1])


def _accesses(whole: Statements) -> Iterator[tuple[Statement, VectorTensor, bool]]:
    """What statements read or write in DRAM, and whether block by block."""
    stream = whole.stream
    for number, statement in enumerate(whole.statements):
        looked = {table.name for table in statement.looked_up}
        for name in dict.fromkeys((statement.target.name, *statement.operands)):
            if not whole.tensors[name].memory and name not in looked:
                yield statement, whole.tensors[name], stream is not None and stream.first <= number < stream.last


def _moved(whole: Statements, counts: Float64) -> Float64:
    """The bytes that tiles move [n], by their counts along each axis [n, axes]."""
    total = np.zeros(len(counts))
    for statement, tensor, streams in _accesses(whole):
        own = [axis for axis in tensor.axes if axis != UNIT]
        size = math.prod(whole.extents[axis] for axis in own) * np.dtype(tensor.dtype).itemsize
        within = [
            axis
            for axis in range(len(whole.extents))
            if axis not in own and (whole.stream is None or streams or axis != whole.stream.axis)
        ]
        again = counts[:, within].prod(axis=1)
        loads = bool(whole.tensors[statement.target.name].memory)
        once = loads & (counts[:, own].prod(axis=1) == 1)  # which all tiles share
        total += size * np.where(once, 1, again)
    return total


def _prices(whole: Statements, tiles: Array, accelerator: Accelerator) -> Float64:
    """The cycles of copies, and of beginning instructions, by tiles."""
    counts = np.ceil(np.array(whole.extents) / tiles)
    every, stream = counts.prod(axis=1), whole.stream
    begun = every * len(whole.statements)
    if stream is not None:
        inside = stream.last - stream.first
        outside = len(whole.statements) - inside
        begun = every * inside + every / counts[:, stream.axis] * outside
    return np.asarray(_moved(whole, counts) / accelerator.dram.bus_bytes + begun * _BEGINNING)


def _room(tensors: Sequence[VectorTensor], tiles: Array, accelerator: Accelerator) -> Array:
    """Whether one copy of each buffer fits, by tiles: those that may."""
    found = np.ones(len(tiles), dtype=bool)
    for memory in {tensor.memory for tensor in tensors}:
        elements = np.zeros(len(tiles))
        for tensor in tensors:
            if tensor.memory == memory:
                elements += tiles[:, list(tensor.axes)].prod(axis=1) / accelerator.memory(memory).element_count
        found &= elements <= accelerator.memory(memory).depth
    return found


def dram_bytes(program: VectorProgram) -> int:
    """Returns the bytes that the loads and stores of a program move, all tiles together."""
    dram = [tensor.name for tensor in program.in_dram]
    first = len(dram) - program.results
    tensors = {tensor.name: tensor for tensor in program.tensors}
    names = tuple(dram[:first]), tuple(dram[first:])
    whole = Statements(program.extents, tensors, *names, program.parsed, program.stream)
    return int(_moved(whole, np.ceil(np.array([program.extents]) / np.array([program.tile])))[0])
