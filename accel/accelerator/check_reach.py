"""Whether all of a document can be used: units, memories, operands, and a way from DRAM through the contraction."""

from collections.abc import Iterator

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy, Finish
from accel.accelerator.meanings import meanings_of
from accel.accelerator.require import require
from accel.accelerator.roles import DATA_TYPES, WEIGHT_TYPES, Contraction, Tile, contraction


def check_reach(accelerator: Accelerator) -> None:
    """Refuse what is idle, and a document whose contraction gets no data or keeps its results.

    Raises:
        InvalidAccelerator: ``field`` is the path of what nothing uses, or of what needs more.
    """
    _check_units(accelerator)
    _check_memories(accelerator)
    _check_operands(accelerator)
    _check_ends(accelerator)
    _check_contraction(accelerator, contraction(accelerator))


def _check_units(accelerator: Accelerator) -> None:
    used = {instruction.unit for instruction in accelerator.instructions}
    for index, unit in enumerate(accelerator.units):
        require(unit in used, f"units.{index}", f"no instruction is of unit {unit}; name it in one, or leave it out")


def _touched(accelerator: Accelerator) -> Iterator[tuple[str, bool]]:
    """Memories that instructions use, and whether that fills them."""
    for instruction in accelerator.instructions:
        if isinstance(instruction, Copy):
            yield instruction.memory, instruction.direction == "load"
        if not isinstance(instruction, Compute):
            continue
        if instruction.microops is not None:
            yield instruction.microops.memory, False
        for meaning in meanings_of(accelerator, instruction):
            statement = meaning.typed.statement
            yield instruction.operands[statement.target.name].memory, True
            for name in statement.operands:
                yield instruction.operands[name].memory, False


def _check_memories(accelerator: Accelerator) -> None:
    touched = set(_touched(accelerator))
    for index, memory in enumerate(accelerator.memories):
        filled, read = (memory.name, True) in touched, (memory.name, False) in touched
        at, name = f"memories.{index}", memory.name
        require(filled or read, at, f"no instruction uses {name}; one must, or leave it out")
        require(
            filled, at, f"nothing fills {name}; a copy must load it, or a compute write it{_elsewhere(accelerator)}"
        )
        require(read, at, f"nothing uses what is in {name}; a copy must store it, or a compute read it")


def _elsewhere(accelerator: Accelerator) -> str:
    """Loads of a memory that another load fills already, one of which may be meant for another."""
    loads = [(index, i) for index, i in enumerate(accelerator.instructions) if isinstance(i, Copy)]
    loads = [(index, copy) for index, copy in loads if copy.direction == "load"]
    for number, (index, copy) in enumerate(loads):
        for earlier, other in loads[:number]:
            if copy.memory == other.memory:
                both = f"{other.name} (instructions.{earlier}.memory) and {copy.name} (instructions.{index}.memory)"
                return f"; {both} load {copy.memory}"
    return ""


def _check_operands(accelerator: Accelerator) -> None:
    for index, instruction in enumerate(accelerator.instructions):
        if not isinstance(instruction, Compute):
            continue
        used = {name for meaning in meanings_of(accelerator, instruction) for name in meaning.typed.tensors}
        for name in instruction.operands:
            idle = f"no operation of {instruction.name} uses {name}; name it in one, or leave it out"
            require(name in used, f"instructions.{index}.operands.{name}", idle)


def _check_ends(accelerator: Accelerator) -> None:
    ends = [(index, i) for index, i in enumerate(accelerator.instructions) if isinstance(i, Finish)]
    for index, instruction in ends[1:]:
        one = f"{instruction.name} ends a launch, as {ends[0][1].name} does; there may be one such instruction"
        require(condition=False, path=f"instructions.{index}.kind", message=one)


def _check_contraction(accelerator: Accelerator, gemm: Contraction) -> None:
    for tile, dtypes, why in (
        (gemm.data, DATA_TYPES, "models are quantised to int8"),
        (gemm.weights, WEIGHT_TYPES, "models are quantised to int8"),
        (gemm.dst, ("int32",), "biases and sums are int32"),
    ):
        at = f"memories.{_number(accelerator, tile)}.dtype"
        wrong = f"{tile.memory.dtype}; {tile.name} of {gemm.instruction.name} must be {' or '.join(dtypes)}: {why}"
        require(tile.memory.dtype in dtypes, at, wrong)


def _number(accelerator: Accelerator, tile: Tile) -> int:
    return [memory.name for memory in accelerator.memories].index(tile.memory.name)
