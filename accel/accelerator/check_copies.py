"""Whether copies bring the contraction what it needs, and bring its results away, as the compiler can use them."""

from collections.abc import Iterator

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.meanings import Meaning, meanings_of
from accel.accelerator.require import require
from accel.accelerator.roles import Contraction, Tile, contraction
from accel.accelerator.ways import keeps_places, way_of

_RESULTS = (
    "results leave as int32 as they are, as int8 of the low bits beside operations that shift and hold them, or as "
    "int8 by i8(clip(rint(f32(sram) * scale), -128, 127)) or i8(clip(sram >> shift, -128, 127))"
)
Place = tuple[str, Copy, Meaning]


def check_copies(accelerator: Accelerator) -> None:
    """Refuse copies that move scalars to other places, loads that change all they bring, results that stay.

    Raises:
        InvalidAccelerator: ``field`` is the path of the expression, or of the instructions where one is missing.
    """
    places = list(_places(accelerator))
    for path, copy, meaning in places:
        moves = f"{meaning.typed.statement} moves scalars within an element"
        same = f"{moves}; a {copy.direction} has the same indices on both sides"
        require(keeps_places(meaning), path, same)
    gemm = contraction(accelerator)
    for tile in (gemm.data, gemm.weights):
        _check_load(tile, gemm, places)
    _check_start(gemm, places)
    _check_results(accelerator, gemm, places)


def _places(accelerator: Accelerator) -> Iterator[Place]:
    """All that copies do, each with its path: that of the type in DRAM where there is no expression."""
    for index, copy in enumerate(accelerator.instructions):
        if isinstance(copy, Copy):
            for number, meaning in enumerate(meanings_of(accelerator, copy)):
                at = f"operations.{number}.does" if copy.operations else "dram_dtype"
                yield f"instructions.{index}.{at}", copy, meaning


def _loads(tile: Tile, places: list[Place]) -> list[Place]:
    """What brings scalars of the memory's own type."""
    wanted = (tile.memory.name, "load", tile.memory.dtype)
    return [place for place in places if (place[1].memory, place[1].direction, place[1].dram_dtype) == wanted]


def _check_load(tile: Tile, gemm: Contraction, places: list[Place]) -> None:
    found = _loads(tile, places)
    need = f"no copy loads {tile.memory.dtype} into {tile.memory.name}; {gemm.instruction.name} reads it there"
    require(bool(found), "instructions", need)
    path, copy, meaning = found[0]
    changed = (
        f"{copy.name} does {meaning.typed.statement}, and {gemm.instruction.name} needs a load that leaves what it "
        f"brings to {tile.memory.name} as it is; expected {_plain(meaning)}"
    )
    require(any(way_of(meaning) == "plain" for _, _, meaning in found), path, changed)


def _plain(meaning: Meaning) -> str:
    target, other = meaning.typed.statement.target, {"sram": "dram", "dram": "sram"}
    return f"{target} = {str(target).replace(target.name, other[target.name], 1)}"


def _check_start(gemm: Contraction, places: list[Place]) -> None:
    if gemm.zero is not None:
        return
    name, memory, found = gemm.instruction.name, gemm.dst.memory, _loads(gemm.dst, places)
    start = f"it must also do {gemm.dst.name}[...] = 0, or a copy must load {memory.dtype} into {memory.name}"
    over = f"; {gemm.overwrite.name}, which overwrites, begins none" if gemm.overwrite is not None else ""
    require(bool(found), "instructions", f"nothing begins the sums of {name}{over}: {start}")
    path, copy, meaning = found[0]
    changed = f"{copy.name} does {meaning.typed.statement}, so nothing begins the sums of {name}: {start} as it is"
    require(any(way_of(meaning) == "plain" for _, _, meaning in found), path, changed)


def _check_results(accelerator: Accelerator, gemm: Contraction, places: list[Place]) -> None:
    memory = gemm.dst.memory
    stores = [place for place in places if (place[1].memory, place[1].direction) == (memory.name, "store")]
    keep = f"no copy stores {memory.name}; the results of {gemm.instruction.name} are in it"
    require(bool(stores), "instructions", keep)
    if any(_brings(copy, meaning, narrows=_works(accelerator, gemm)) for _, copy, meaning in stores):
        return
    told = "; ".join(
        f"{copy.name} stores {copy.dram_dtype}" + (f" by {meaning.typed.statement}" if copy.operations else "")
        for _, copy, meaning in stores
    )
    at = stores[0][0] if len(stores) == 1 else "instructions"
    none = f"{told}: no store brings results of {gemm.instruction.name} to the host; {_RESULTS}"
    require(condition=False, path=at, message=none)


def _brings(copy: Copy, meaning: Meaning, *, narrows: bool) -> bool:
    way = way_of(meaning)
    if copy.dram_dtype == "int32":
        return way == "plain"
    return copy.dram_dtype == "int8" and (way in ("scaled", "shifted") or (way == "plain" and narrows))


def _works(accelerator: Accelerator, gemm: Contraction) -> bool:
    """Whether an operation works on the accumulators beside those of the contraction."""
    contracts = (gemm.accumulate, gemm.zero, gemm.overwrite)
    return any(
        instruction.operands[meaning.typed.statement.target.name].memory == gemm.dst.memory.name
        for instruction in accelerator.instructions
        if isinstance(instruction, Compute)
        for meaning in meanings_of(accelerator, instruction)
        if meaning.operation not in contracts
    )
