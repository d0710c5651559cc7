"""Why no store narrows accumulators as needed: the store that comes nearest, and how it differs."""

from collections.abc import Iterator

from tvm import tirx

from accel.accelerator.instructions import Copy
from accel.accelerator.semantics import Semantics
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.inject.operation_matching import matching_operations
from accel.lowering.ir.epilogue_arithmetic import clip_to, stored_value
from accel.region.epilogue import Scaling, Shifting

_SCALED = "i8(clip(rint(f32(sram) * scale), {}, {}))"
_SHIFTED = "i8(clip(sram + (1 << shift - 1) >> shift, {}, {}))"
_BOUNDS = ((-128, 127), (-127, 127), (0, 127), (-128, 126))


def store_mismatch(bounds: tuple[int, int], capabilities: Capabilities) -> str:
    """Why accumulators cannot leave as int8 clipped to ``bounds``, in words."""
    missing = f"{capabilities.accelerator.title} has no store that narrows its accumulators to int8"
    stores = [
        meaning
        for meaning in capabilities.known
        if isinstance(meaning.instruction, Copy)
        and meaning.instruction.windows is None
        and (meaning.instruction.direction, meaning.instruction.memory) == ("store", capabilities.gemm.dst.memory.name)
        and meaning.instruction.dram_dtype == "int8"
    ]
    if not stores:
        return missing
    told = [(meaning, difference) for meaning in stores if (difference := _difference(meaning, bounds, capabilities))]
    nearest, difference = told[0] if told else (stores[0], "is none of those known here")
    does = f"{nearest.instruction.name} does {nearest.typed.statement}, which {difference}"
    wanted = _SCALED if "f32" in str(nearest.typed.statement) else _SHIFTED
    return f"{missing}: {does}; {wanted.format(*bounds)} would do"


def _difference(meaning: Semantics, bounds: tuple[int, int], capabilities: Capabilities) -> str:
    """What a store does otherwise than one that could be used; empty where that is more than one thing."""
    for words, value in _variants(bounds, capabilities):
        store = tirx.BufferStore(tirx.decl_buffer((1,), "int8", "d"), value, [0])
        if next(matching_operations(store, [meaning], capabilities.target), None) is not None:
            return words
    return ""


def _variants(bounds: tuple[int, int], capabilities: Capabilities) -> Iterator[tuple[str, tirx.Expr]]:
    """Stores that are nearly right, and what is wrong with each."""
    value, dtype = capabilities.accumulator("a")[0], capabilities.gemm.sum_dtype
    scaled = value.astype("float32") * tirx.const(0.5, "float32")
    yield "does not clip", tirx.nearbyint(scaled).astype("int8")
    yield "does not round", clip_to(scaled, bounds).astype("int8")
    for low, high in (other for other in _BOUNDS if other != bounds):
        clips = f"clips to {low} and {high}, not to {bounds[0]} and {bounds[1]}"
        yield clips, stored_value(value, "int8", Scaling(0.5, low, high))
        for rounds in (True, False):
            yield clips, stored_value(value, "int8", Shifting(4, low, high, rounds))
    yield "does not clip", (value >> tirx.const(4, dtype)).astype("int8")
    yield "does not clip", ((value + tirx.const(8, dtype)) >> tirx.const(4, dtype)).astype("int8")
    swapped = tirx.min(tirx.max(tirx.nearbyint(scaled), tirx.const(127.0, "float32")), tirx.const(-128.0, "float32"))
    yield "has its bounds the wrong way round", swapped.astype("int8")
