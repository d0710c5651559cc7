"""The operations of an accelerator that a tile uses, each found as the pass ``inject`` will find it."""

from collections.abc import Iterator
from typing import Any

from tvm import tirx

from accel.accelerator.instructions import Copy, takes_windows
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


def contraction_operations(epilogue: Epilogue, capabilities: Capabilities) -> Iterator[UsedOperation]:
    """Everything that a tile of sums of products uses, in its order."""
    yield from microop_loads(capabilities)
    yield from sum_operations(epilogue, capabilities)
    yield from epilogue_operations(epilogue, capabilities)


def microop_loads(capabilities: Capabilities) -> Iterator[UsedOperation]:
    """What loads micro-ops, if there are any."""
    microops = capabilities.gemm.instruction.microops
    if microops is not None:
        yield from _loading("load micro-ops", microops.memory, capabilities)


def sum_operations(epilogue: Epilogue, capabilities: Capabilities) -> Iterator[UsedOperation]:
    """Up to the sums of products."""
    gemm = capabilities.gemm
    yield from _loading("load data", gemm.data.memory.name, capabilities)
    yield from _loading("load weights", gemm.weights_loaded_to.name, capabilities)
    if epilogue.start == "bias" or epilogue.tensors:
        yield from bias_load(capabilities)
    for memory in dict(epilogue.factors.operands).values() if epilogue.factors is not None else ():
        yield from _loading("load bias", memory, capabilities)
    clears = gemm.zero if gemm.zero is not None else gemm.overwrite
    if epilogue.start == "zero" and clears is not None:
        yield UsedOperation("clear", gemm.instruction, clears)
    yield UsedOperation("contract", gemm.instruction, gemm.accumulate)


def bias_load(capabilities: Capabilities) -> Iterator[UsedOperation]:
    """What loads a number a channel."""
    yield from _loading("load bias", capabilities.gemm.dst.memory.name, capabilities)


def step_operations(shape: Lanewise, tiling: Tiling, capabilities: Capabilities) -> Iterator[UsedOperation]:
    """The steps of a lane-wise tile but for contractions."""
    accumulators = _buffer("a", capabilities.gemm.dst.memory.name, capabilities)
    for step in tile_planner(shape, capabilities)(tiling.out_rows, tiling.out_columns).steps:
        if isinstance(step, Load):
            widened = tirx.decl_buffer((1,), "int8", "source")[0].astype(accumulators.dtype)
            widened = accumulators[0] + widened if step.adds else widened
            yield from _copying("load data", accumulators, widened, capabilities)
        elif isinstance(step, Apply):
            yield from _answered(capabilities.steps(step.steps))
        elif isinstance(step, Merge):
            yield from _answered(capabilities.pair(step.name))


def epilogue_operations(epilogue: Epilogue, capabilities: Capabilities) -> Iterator[UsedOperation]:
    """The epilogue's steps, and the store."""
    gemm = capabilities.gemm
    shifts: list[Steps] = [(("shift_right", _PLANE_SHIFT),)] if epilogue.planes > 1 else []
    for steps in (*epilogue.grouped, *shifts):
        if steps[0][0] in SUMS:
            yield UsedOperation("contract", gemm.instruction, gemm.accumulate)
            continue
        yield from _answered(capabilities.steps(steps))
    result = tirx.decl_buffer((1,), epilogue.result, "result")
    accumulators, factors = _buffer("a", gemm.dst.memory.name, capabilities), epilogue.factors
    operands = () if factors is None else factors.operands
    read = {role: _buffer(role, memory, capabilities)[0] for role, memory in operands}
    value = stored_value(accumulators[0], epilogue.result, epilogue.scaling, read)
    yield from _copying("store", result, value, capabilities)


def stores_of_windows(epilogue: Epilogue, capabilities: Capabilities) -> Iterator[UsedOperation]:
    """The store that takes the largest of windows."""
    stored = capabilities.store_of_windows(epilogue.result, epilogue.scaling).meaning
    if stored is not None and isinstance(stored.instruction, Copy):
        yield UsedOperation("store", stored.instruction, stored.operation)


def _loading(role: Role, memory: str, capabilities: Capabilities) -> Iterator[UsedOperation]:
    target, place = _buffer("target", memory, capabilities), capabilities.accelerator.memory(memory)
    source = tirx.decl_buffer((1,), place.dtype_in_dram, "source")[0]
    yield from _copying(role, target, source.astype(place.dtype), capabilities)


def _buffer(name: str, memory: str, capabilities: Capabilities) -> Any:
    place = capabilities.accelerator.memory(memory)
    return tirx.decl_buffer((1,), place.dtype, name, scope=place.scope)


def _copying(role: Role, target: Any, value: Any, capabilities: Capabilities) -> Iterator[UsedOperation]:
    """The first copy that stores ``value`` into ``target``."""
    copies = (meaning for meaning in capabilities.known if isinstance(meaning.instruction, Copy))
    known = [meaning for meaning in copies if not takes_windows(meaning.instruction)]
    for choice in matching_operations(tirx.BufferStore(target, value, [0]), known, capabilities.target):
        yield UsedOperation(role, choice.meaning.instruction, choice.meaning.operation)
        return


def _answered(answer: CapabilityAnswer) -> Iterator[UsedOperation]:
    """What does a part of an epilogue."""
    if answer.meaning is not None:
        yield UsedOperation("epilogue", answer.meaning.instruction, answer.meaning.operation)
