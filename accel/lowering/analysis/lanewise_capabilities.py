"""Capabilities for lane-wise work: how int8 comes into the accumulators, what steps combine it, how it leaves clipped.

Lane-wise regions are made of steps on accumulators: elementwise work and maxima over windows.
"""

from collections.abc import Callable

from accel.lowering.analysis.buffer_contexts import needs_double_buffer
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.store_mismatch import store_mismatch
from accel.region.elementwise import bit_gaps
from accel.region.epilogue import INT8, Epilogue, EpilogueOp, Scaling, Shifting, Start
from accel.region.tile_steps import LaneCapabilities, Lanewise, PairOp, TilePlan


def identity_obstacle(capabilities: Capabilities) -> str:
    """Why a contraction with the identity cannot bring int8 into cleared accumulators; empty where it can."""
    gemm, title = capabilities.gemm, capabilities.accelerator.title
    if gemm.out_channels != gemm.in_channels:
        return f"its tiles are {gemm.out_channels}x{gemm.in_channels}, not square"
    if gemm.stage is not None:
        return f"an identity would come to it by {gemm.stage.instruction.name}, as weights of a layer alone do"
    if gemm.slides:
        return f"{gemm.instruction.name} slides over several columns at once, and nothing pads what is added"
    if gemm.data.memory.dtype != "int8":
        return f"its data are {gemm.data.memory.dtype}, not int8"
    return (
        ""
        if initial_accumulators(capabilities) is not None
        else f"{title} can neither clear its accumulators nor load them"
    )


def initial_accumulators(capabilities: Capabilities) -> Start | None:
    """How accumulators become zero: by the contraction, or by a load; None if they cannot."""
    if capabilities.gemm.zero is not None:
        return "zero"
    memory = capabilities.gemm.dst.memory
    return "bias" if capabilities.load(memory.name, memory.dtype_in_dram) is not None else None


def load_obstacle(capabilities: Capabilities) -> str:
    """Why int8 cannot come into the accumulators; empty where it can."""
    obstacle, memory, title = (
        identity_obstacle(capabilities),
        capabilities.gemm.dst.memory.name,
        capabilities.accelerator.title,
    )
    if not obstacle:
        return ""
    if capabilities.load(memory, "int8") is None:
        return f"{title} cannot bring int8 data into its accumulators: no load widens them, and {obstacle}"
    if needs_double_buffer(Epilogue((), start="bias"), capabilities.accelerator, capabilities.gemm):
        return f"the loads of {title} into its accumulators cannot wait for its stores"
    return ""


def clipping_epilogue(bounds: tuple[int, int], capabilities: Capabilities) -> Epilogue | str:
    """How accumulators that hold int8 leave, clipped to ``bounds``; or why they cannot."""
    start = initial_accumulators(capabilities) or "zero"
    steps: list[tuple[EpilogueOp, int]] = []
    if bounds[0] > INT8[0]:
        steps.append(("max", bounds[0]))
    if bounds[1] < INT8[1]:
        steps.append(("min", bounds[1]))
    done = all(capabilities.step(*step) is not None for step in steps)
    if done and capabilities.store("int8") is not None:
        return Epilogue(tuple(steps), start=start)
    for low, high, kept in ((*bounds, ()), (*INT8, tuple(steps) if done else None)):
        for scaling in (Shifting(0, low, high, rounds=False), Scaling(1.0, low, high)):
            if kept is not None and capabilities.store("int8", scaling) is not None:
                return Epilogue(kept, start=start, scaling=scaling)
    return store_mismatch(bounds, capabilities)


def lane_capabilities(capabilities: Capabilities, name: PairOp, weights: tuple[int, ...] = ()) -> LaneCapabilities:
    """What ``capabilities`` has for the maximum, ... of several operands with these weights."""
    direct = bool(identity_obstacle(capabilities))
    clamps = name in ("max", "min") and capabilities.step("max" if name == "max" else "min", 0) is not None
    pair = capabilities.pair(name).pragma is not None
    if not direct:
        return LaneCapabilities(pair, difference=clamps, direct=False)
    counts = {count for weight in weights if weight > 0 for count in bit_gaps(weight) if count}
    return LaneCapabilities(
        pair,
        difference=False,
        direct=True,
        sums=capabilities.pair("add").pragma is not None,
        shifts=frozenset(count for count in counts if capabilities.step("shift_right", -count) is not None),
        products=frozenset(weight for weight in weights if capabilities.step("multiply", weight) is not None),
    )


def tile_planner(shape: Lanewise, capabilities: Capabilities) -> Callable[[int, int], TilePlan]:
    """The steps of a tile by its rows and columns."""
    ways = lane_capabilities(capabilities, shape.pair_op, shape.weights)
    return lambda rows, columns: shape.plan_tile(rows, columns, ways)
