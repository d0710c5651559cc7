"""Lines that a tiling reads and writes past a Gemmini's L2, for the planner: an estimate from what lies between uses.

What a launch reads and writes is in the L2 where all of it fits. Otherwise what is used again is still there if what is
read and written in between fits with it: the data of a tile and the weights of its output channels between the steps,
the whole image between two groups of output channels, all weights between two tiles of pixels. But of lines of weights
that several tiles share all but one read count as misses: among other launches what the L2 has is theirs as well.
"""

import math
from dataclasses import dataclass

import numpy as np

from accel.isa.gemmini.document.gemmini_parameters import LINE_BYTES, GemminiParameters, MemoryHierarchy
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates
from accel.util.arrays import Float64


@dataclass(frozen=True)
class MissedLines:
    """Lines of ``data``, ``weights`` and ``results`` (n,) that pass the L2; 0 without a hierarchy of memories.

    Attributes:
        latency: cycles more than an answer of the L2.
        line_cycles: that a line takes of what is behind the L2.
    """

    data: Float64
    weights: Float64
    results: Float64
    latency: float
    line_cycles: float


def missed_lines(
    c: Candidates, conv: Convolution, parameters: GemminiParameters, *, weights_in_rows: bool, results_in_rows: bool
) -> MissedLines:
    """Returns the lines that candidates (n,) read and write past the L2.

    Weights, or results, of all output channels may lie in rows in DRAM, so that tiles of few share lines with others.
    """
    memory, dim = parameters.memory, parameters.dim
    none = np.zeros(c.tiles.shape)
    if memory is None:
        return MissedLines(none, none, none, 0, 0)
    stacks = conv.out_blocks // c.out_blocks
    spatial = c.tiles // stacks
    rows = (c.out_rows - 1) * conv.strides[0] + (conv.kernel[0] - 1) * conv.dilation[0] + 1
    columns = (c.out_columns - 1) * conv.strides[1] + (conv.kernel[1] - 1) * conv.dilation[1] + 1
    blocks = c.data_blocks // c.in_blocks * conv.reduced_blocks
    data = rows * columns * blocks * dim  # of a tile's pixels, in all its steps
    group = c.out_blocks * conv.reduced_blocks * conv.kernel[0] * conv.kernel[1] * dim * dim  # weights of a tile
    if conv.uniform:
        group = np.zeros_like(group)
    results = conv.data.batch * conv.out_blocks * math.prod(conv.stored) * dim
    image, weights = data * spatial, group * stacks
    everything = image + weights + results
    past = everything > memory.l2_bytes
    once = (image + group + results // stacks <= memory.l2_bytes) | (stacks == 1)
    data_stay = (c.data_loads == spatial) & (stacks > 1)
    passes = np.where(once | data_stay, 1, stacks)
    kept = np.where(data_stay, data + weights, data + group) <= memory.l2_bytes
    loads = np.maximum(c.weight_loads, stacks) / (stacks * c.reductions)
    read = weights * np.where(kept | conv.uniform, 1, np.maximum(loads, 1))
    row = c.out_blocks * dim
    shared = np.where(stacks == 1, 1, 1 + (LINE_BYTES - np.gcd(row, LINE_BYTES)) / row)
    again = weights * (shared - 1) * weights_in_rows  # of lines that several tiles read, which others may displace
    if weights_in_rows:
        read = read * shared
    written = 2 * results / LINE_BYTES * np.where(results_in_rows, shared, 1)  # each is read before it is written
    latency, line_cycles = _behind_l2(memory, int(np.min(everything)))
    return MissedLines(
        np.asarray(np.where(past, image * passes, 0) / LINE_BYTES, np.float64),
        np.asarray(np.where(past, read, again) / LINE_BYTES, np.float64),
        np.asarray(np.where(past, written, 0), np.float64),
        latency,
        line_cycles,
    )


def _behind_l2(memory: MemoryHierarchy, used: int) -> tuple[float, float]:
    """The latency of a line that the L2 does not have, where so many bytes are used, and the cycles that it takes."""
    latency, cycles = memory.dram_latency, float(memory.dram_line_cycles)
    if memory.llc_sets == 0:
        return latency, cycles
    hit = LINE_BYTES / memory.llc_bus_bytes + 1
    if used <= memory.llc_bytes:
        return memory.llc_latency, hit
    return memory.llc_latency + latency, hit + max(LINE_BYTES / memory.llc_bus_bytes, cycles)
