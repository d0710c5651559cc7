"""Elementwise work on packed tensors: how int8 comes into the accumulators, and how it leaves them clipped."""

from accel.accelerator.near_contraction import Axis
from accel.accelerator.roles import Contraction, Tile
from accel.lowering.capabilities import Capabilities
from accel.lowering.contexts import apart
from accel.lowering.geometry import INT8, Epilogue, EpilogueOp, Scaling, Shifting, Start
from accel.lowering.nearest import no_narrow_store


def lane_tile(gemm: Contraction, *, direct: bool) -> Tile:
    """The tiles in which data lie: those of a contraction's data, or those of its results if they go there directly."""
    if not direct:
        return gemm.data
    axes: list[Axis] = ["k" if axis == "n" else axis for axis in gemm.dst.axes]
    memory = gemm.dst.memory.model_copy(update={"dtype": "int8"})
    return Tile("data", memory, (axes[0], axes[1]), gemm.dst.shape)


def by_identity(able: Capabilities) -> str:
    """Why a contraction with the identity cannot bring int8 into cleared accumulators; empty where it can."""
    gemm, title = able.gemm, able.accelerator.title
    if gemm.out_channels != gemm.in_channels:
        return f"its tiles are {gemm.out_channels}x{gemm.in_channels}, not square"
    if gemm.data.memory.dtype != "int8":
        return f"its data are {gemm.data.memory.dtype}, not int8"
    return "" if start_of(able) is not None else f"{title} can neither clear its accumulators nor load them"


def start_of(able: Capabilities) -> Start | None:
    """How accumulators become zero: by the contraction, or by a load; None if they cannot."""
    if able.gemm.zero is not None:
        return "zero"
    memory = able.gemm.dst.memory
    return "bias" if able.load(memory.name, memory.dtype) is not None else None


def no_way_in(able: Capabilities) -> str:
    """Why int8 cannot come into the accumulators; empty where it can."""
    obstacle, memory, title = by_identity(able), able.gemm.dst.memory.name, able.accelerator.title
    if not obstacle:
        return ""
    if able.load(memory, "int8") is None:
        return f"{title} cannot bring int8 data into its accumulators: no load widens them, and {obstacle}"
    if apart(Epilogue((), start="bias"), able.accelerator, able.gemm):
        return f"the loads of {title} into its accumulators cannot wait for its stores"
    return ""


def clipped_ending(bounds: tuple[int, int], able: Capabilities) -> Epilogue | str:
    """How accumulators that hold int8 leave, clipped to ``bounds``; or why they cannot."""
    start = start_of(able) or "zero"
    steps: list[tuple[EpilogueOp, int]] = []
    if bounds[0] > INT8[0]:
        steps.append(("max", bounds[0]))
    if bounds[1] < INT8[1]:
        steps.append(("min", bounds[1]))
    done = all(able.step(*step) is not None for step in steps)
    if done and able.store("int8") is not None:
        return Epilogue(tuple(steps), start=start)
    for low, high, kept in ((*bounds, ()), (*INT8, tuple(steps) if done else None)):
        for scaling in (Shifting(0, low, high, rounds=False), Scaling(1.0, low, high)):
            if kept is not None and able.store("int8", scaling) is not None:
                return Epilogue(kept, start=start, scaling=scaling)
    return no_narrow_store(bounds, able)
