"""The operations of an accelerator that a tile uses, each found as the pass ``inject`` will find it."""

from collections.abc import Iterator
from typing import Any

from tvm import tirx

from accel.accelerator.instructions import Copy
from accel.lowering.analysis.capabilities import Capabilities, CapabilityAnswer
from accel.lowering.analysis.lanewise_capabilities import tile_planner
from accel.lowering.inject.operation_matching import matching_operations
from accel.lowering.ir.epilogue_arithmetic import stored_value
from accel.lowering.kinds.region_kind import UsedOperation
from accel.region.epilogue import SUMS, Epilogue, Steps
from accel.region.kinds import Role
from accel.region.tile_steps import Apply, Lanewise, Load, Merge
from accel.region.tilings import Tiling

_PLANE_SHIFT = 8  # bits of a byte plane


def contraction_operations(epilogue: Epilogue, able: Capabilities) -> Iterator[UsedOperation]:
    """Everything that a tile of sums of products uses, in its order."""
    yield from microop_loads(able)
    yield from sum_operations(epilogue, able)
    yield from epilogue_operations(epilogue, able)


def microop_loads(able: Capabilities) -> Iterator[UsedOperation]:
    """What loads micro-ops, if there are any."""
    microops = able.gemm.instruction.microops
    if microops is not None:
        yield from _loading("load micro-ops", microops.memory, able)


def sum_operations(epilogue: Epilogue, able: Capabilities) -> Iterator[UsedOperation]:
    """Up to the sums of products."""
    gemm = able.gemm
    yield from _loading("load data", gemm.data.memory.name, able)
    yield from _loading("load weights", gemm.weights.memory.name, able)
    if epilogue.start == "bias" or epilogue.tensors:
        yield from _loading("load bias", gemm.dst.memory.name, able)
    if epilogue.start == "zero" and gemm.zero is not None:
        yield UsedOperation("clear", gemm.instruction, gemm.zero)
    yield UsedOperation("contract", gemm.instruction, gemm.accumulate)


def step_operations(shape: Lanewise, tiling: Tiling, able: Capabilities) -> Iterator[UsedOperation]:
    """The steps of a lane-wise tile but for contractions."""
    accumulators = _buffer("a", able.gemm.dst.memory.name, able)
    for step in tile_planner(shape, able)(tiling.out_rows, tiling.out_columns).steps:
        if isinstance(step, Load):
            widened = tirx.decl_buffer((1,), "int8", "source")[0].astype(accumulators.dtype)
            yield from _copying("load data", accumulators, widened, able)
        elif isinstance(step, Apply):
            yield from _answered(able.steps(step.steps))
        elif isinstance(step, Merge):
            yield from _answered(able.pair(step.name))


def epilogue_operations(epilogue: Epilogue, able: Capabilities) -> Iterator[UsedOperation]:
    """The epilogue's steps, and the store."""
    gemm = able.gemm
    shifts: list[Steps] = [(("shift_right", _PLANE_SHIFT),)] if epilogue.planes > 1 else []
    for steps in (*epilogue.grouped, *shifts):
        if steps[0][0] in SUMS:
            yield UsedOperation("contract", gemm.instruction, gemm.accumulate)
            continue
        yield from _answered(able.steps(steps))
    result = tirx.decl_buffer((1,), epilogue.result, "result")
    accumulators = _buffer("a", gemm.dst.memory.name, able)
    yield from _copying("store", result, stored_value(accumulators[0], epilogue.result, epilogue.scaling), able)


def _loading(role: Role, memory: str, able: Capabilities) -> Iterator[UsedOperation]:
    target = _buffer("target", memory, able)
    yield from _copying(role, target, tirx.decl_buffer((1,), target.dtype, "source")[0], able)


def _buffer(name: str, memory: str, able: Capabilities) -> Any:
    place = able.accelerator.memory(memory)
    return tirx.decl_buffer((1,), place.dtype, name, scope=place.scope)


def _copying(role: Role, target: Any, value: Any, able: Capabilities) -> Iterator[UsedOperation]:
    """The first copy that stores ``value`` into ``target``."""
    known = [meaning for meaning in able.known if isinstance(meaning.instruction, Copy)]
    for choice in matching_operations(tirx.BufferStore(target, value, [0]), known, able.target):
        yield UsedOperation(role, choice.meaning.instruction, choice.meaning.operation)
        return


def _answered(answer: CapabilityAnswer) -> Iterator[UsedOperation]:
    """What does a part of an epilogue."""
    if answer.meaning is not None:
        yield UsedOperation("epilogue", answer.meaning.instruction, answer.meaning.operation)
