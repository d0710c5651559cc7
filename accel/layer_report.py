"""The report of one launch: a layer of the model on the accelerator."""

import math

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.isa.vta.timing import Timing
from accel.isa.vta.work import work_of
from accel.report_documents import Layer
from accel.simulate.engine import LaunchResult


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
    busy = _cover(timing, unit == loading)
    both = busy & _cover(timing, unit == compute)
    return float(both.sum() / busy.sum()) if busy.any() else 0.0


def _cover(timing: Timing, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """For each cycle whether one of the instructions ran in it."""
    steps = np.zeros(timing.cycles + 1, dtype=np.int64)
    np.add.at(steps, timing.start[rows], 1)
    np.add.at(steps, timing.end[rows], -1)
    return np.asarray(np.cumsum(steps) > 0)
