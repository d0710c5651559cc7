"""The report of one launch: a layer of the model on the accelerator."""

import math

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.isa.vta.timing import Timing
from accel.isa.vta.work import work_of
from accel.report_documents import Layer
from accel.simulate.engine import LaunchResult

Int64 = npt.NDArray[np.int64]


def layer_of(result: LaunchResult, accelerator: Accelerator) -> Layer:
    """The report of one launch as it ran."""
    work, launch = work_of(result.decoded), result.launch
    timing = result.timing
    cycles = timing.cycles if timing else 0
    peak = macs_per_cycle(accelerator)
    return Layer(
        name=launch.name,
        op=launch.op,
        nodes=list(launch.nodes),
        macs=launch.macs,
        cycles=cycles,
        lower_bound=work.lower_bound,
        utilisation=launch.macs / (cycles * peak) if cycles else 0.0,
        gemm_share=work.gemm_cycles / cycles if cycles else 0.0,
        load_overlap=_overlap(result, timing) if timing else 0.0,
        bytes_read=work.bytes_read,
        bytes_written=work.bytes_written,
        instructions=launch.count,
    )


def macs_per_cycle(accelerator: Accelerator) -> int:
    """Multiply-accumulates that one micro-op of the contraction does."""
    gemm = accelerator.contraction
    return math.prod(accelerator.extents(gemm.dst, gemm.data, gemm.weights).values())


def _overlap(result: LaunchResult, timing: Timing) -> float:
    instructions = result.decoded.accelerator.instructions
    gemm = result.decoded.accelerator.contraction
    compute, data = gemm.unit, gemm.data.memory
    loading = next(i.unit for i in instructions if i.kind == "copy" and i.memory == data and i.direction == "load")
    unit = np.array([i.unit for i in instructions])[result.decoded.kind]
    loads, computes = _busy(timing, unit == loading), _busy(timing, unit == compute)
    busy = int((loads[1] - loads[0]).sum())
    return float((_before(loads[1], *computes) - _before(loads[0], *computes)).sum() / busy) if busy else 0.0


def _busy(timing: Timing, rows: npt.NDArray[np.bool_]) -> tuple[Int64, Int64]:
    """Starts and ends of the spans in which one of the instructions ran; the spans are in order and do not overlap."""
    last = np.maximum.accumulate(timing.end[rows])
    start = timing.start[rows]
    start[1:] = np.maximum(start[1:], last[:-1])
    return start, np.maximum(last, start)


def _before(cycle: Int64, start: Int64, end: Int64) -> Int64:
    """How many cycles before each of ``cycle`` lie in the spans."""
    total = np.concatenate([[0], np.cumsum(end - start)])
    span = np.searchsorted(start, cycle)  # the spans that begin before
    over = end[np.maximum(span, 1) - 1] - cycle if len(end) else np.zeros_like(cycle)
    return total[span] - np.where(span > 0, np.maximum(over, 0), 0)
