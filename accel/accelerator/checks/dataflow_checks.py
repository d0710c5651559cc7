"""Checks of data flow: copies bring operands and take results away, and every unit and memory is reached from DRAM."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from accel.accelerator.contraction import DATA_TYPES, WEIGHT_TYPES, Contraction, Tile, contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy, Finish, Layer
from accel.accelerator.require import require, together
from accel.accelerator.semantics import Semantics, layer_semantics, semantics_of
from accel.expression.syntax_tree import Access, Binary, Call, Cast, Scalar
from accel.expression.syntax_tree import Literal as Number
from accel.expression.typecheck import TypedExpression

CopyKind = Literal["plain", "scaled", "shifted"]

_NEUTRAL = {"+": 0, "-": 0, "<<": 0, ">>": 0, "|": 0, "^": 0, "*": 1}  # the right side that changes nothing
_EITHER_SIDE = ("+", "*", "|", "^")
_BOUNDS = ("clip", "min", "max", "relu")


def preserves_positions(meaning: Semantics) -> bool:
    """Returns whether a copy keeps each scalar at its position: the indices are equal on both sides."""
    statement = meaning.typed.statement
    ends = (access for access in statement.accesses if access.name in ("dram", "sram"))
    return all(access.indices == statement.target.indices for access in ends)


def copy_kind(meaning: Semantics) -> CopyKind | None:
    """Returns how a copy computes what it writes; None for a form that the compiler cannot use.

    ``plain``: unchanged, or cast to the target's type, where each scalar has the value that changes nothing.
    ``scaled``: ``clip(rint(f32(x) * scale), low, high)``. ``shifted``: ``clip(x >> shift, low, high)``, where an
    addend to x may come first. Bounds may be written with ``min``, ``max`` and ``relu``.
    """
    if meaning.typed.statement.updates or not preserves_positions(meaning):
        return None
    value = _uncast(meaning.typed.value)
    if _unchanged(value):
        return "plain"
    unbounded = _without_bounds(value)
    if _is_scaled(unbounded):
        return "scaled"
    return "shifted" if unbounded is not value and _is_shifted(unbounded) else None


def _uncast(node: TypedExpression) -> TypedExpression:
    return node.children[0] if isinstance(node.expression, Cast) else node


def _unchanged(node: TypedExpression) -> bool:
    match node.expression:
        case Access():
            return True
        case Binary(operator) if operator in _NEUTRAL:
            left, right = node.children
            if _unchanged(left) and _may_be(right, _NEUTRAL[operator]):
                return True
            return operator in _EITHER_SIDE and _unchanged(right) and _may_be(left, _NEUTRAL[operator])
    return False


def _may_be(node: TypedExpression, number: int) -> bool:
    found = node.expression
    return isinstance(found, Scalar) or (isinstance(found, Number) and found.value == number)


def _without_bounds(node: TypedExpression) -> TypedExpression:
    """The value without its bounds: the argument of ``clip``, ``min``, ``max`` or ``relu`` that reads memory."""
    while isinstance(node.expression, Cast) or (
        isinstance(node.expression, Call) and node.expression.function in _BOUNDS
    ):
        reading = [child for child in node.children if _reads(child)]
        if len(reading) != 1:
            break
        node = reading[0]
    return node


def _reads(node: TypedExpression) -> bool:
    return isinstance(node.expression, Access) or any(_reads(child) for child in node.children)


def _is_scaled(node: TypedExpression) -> bool:
    if not (isinstance(node.expression, Call) and node.expression.function == "rint"):
        return False
    product = node.children[0]
    if not (isinstance(product.expression, Binary) and product.expression.operator == "*"):
        return False
    sides = [_uncast(side).expression for side in product.children]
    return any(isinstance(side, Access) for side in sides) and any(isinstance(side, Scalar) for side in sides)


def _is_shifted(node: TypedExpression) -> bool:
    return isinstance(node.expression, Binary) and node.expression.operator == ">>" and _reads(node.children[0])


_RESULTS = (
    "results leave as int32 as they are, as int8 of the low bits beside operations that shift and hold them, or as "
    "int8 by i8(clip(rint(f32(sram) * scale), -128, 127)) or i8(clip(sram >> shift, -128, 127))"
)
Place = tuple[str, Copy, Semantics]


def check_copies(accelerator: Accelerator) -> None:
    """Refuses copies that permute scalars, operands that no plain load brings, and results that no store takes away.

    Raises:
        InvalidAccelerator: ``field`` is the path of the expression, or of the instructions where one is missing.
    """
    places = list(_places(accelerator))
    with together() as apart:
        for path, copy, meaning in places:
            with apart():
                moves = f"{meaning.typed.statement} moves scalars within an element"
                same = f"{moves}; a {copy.direction} has the same indices on both sides"
                require(preserves_positions(meaning), path, same)
        gemm = contraction(accelerator)
        if isinstance(gemm.instruction, Layer):
            _check_layer_results(accelerator, gemm.instruction)
            return
        for tile in (gemm.data, gemm.weights):
            with apart():
                _check_load(tile, gemm, places)
        with apart():
            _check_start(gemm, places)
        _check_results(accelerator, gemm, places)


def _places(accelerator: Accelerator) -> Iterator[Place]:
    """Every operation of the copies with its path; a copy without operations has the path of its type in DRAM."""
    for index, copy in enumerate(accelerator.instructions):
        if isinstance(copy, Copy):
            for number, meaning in enumerate(semantics_of(accelerator, copy)):
                at = f"operations.{number}.does" if copy.operations else "dram_dtype"
                yield f"instructions.{index}.{at}", copy, meaning


def _loads(tile: Tile, places: list[Place]) -> list[Place]:
    """The loads of the tile's memory whose type in DRAM is that of the memory there."""
    plain_load = (tile.memory.name, "load", tile.memory.dtype_in_dram)
    return [place for place in places if (place[1].memory, place[1].direction, place[1].dram_dtype) == plain_load]


def _check_load(tile: Tile, gemm: Contraction, places: list[Place]) -> None:
    memory = gemm.weights_loaded_to if tile is gemm.weights else tile.memory
    found = _loads(replace(tile, memory=memory), places)
    need = f"no copy loads {tile.memory.dtype} into {tile.memory.name}; {gemm.instruction.name} reads it there"
    require(bool(found), "instructions", need)
    path, copy, meaning = found[0]
    changed = (
        f"{copy.name} does {meaning.typed.statement}, and {gemm.instruction.name} needs a load that leaves what it "
        f"brings to {memory.name} as it is; expected {_plain(meaning)}"
    )
    require(any(copy_kind(meaning) == "plain" for _, _, meaning in found), path, changed)


def _plain(meaning: Semantics) -> str:
    target, other = meaning.typed.statement.target, {"sram": "dram", "dram": "sram"}
    return f"{target} = {str(target).replace(target.name, other[target.name], 1)}"


def _check_start(gemm: Contraction, places: list[Place]) -> None:
    if gemm.zero is not None or gemm.overwrites:
        return
    name, memory, found = gemm.instruction.name, gemm.dst.memory, _loads(gemm.dst, places)
    start = f"it must also do {gemm.dst.name}[...] = 0, or a copy must load {memory.dtype_in_dram} into {memory.name}"
    over = f"; {gemm.overwrite.name}, which overwrites, begins none" if gemm.overwrite is not None else ""
    require(bool(found), "instructions", f"nothing begins the sums of {name}{over}: {start}")
    path, copy, meaning = found[0]
    changed = f"{copy.name} does {meaning.typed.statement}, so nothing begins the sums of {name}: {start} as it is"
    require(any(copy_kind(meaning) == "plain" for _, _, meaning in found), path, changed)


def _check_results(accelerator: Accelerator, gemm: Contraction, places: list[Place]) -> None:
    memory = gemm.dst.memory
    stores = [place for place in places if (place[1].memory, place[1].direction) == (memory.name, "store")]
    keep = f"no copy stores {memory.name}; the results of {gemm.instruction.name} are in it"
    require(bool(stores), "instructions", keep)
    if any(
        _brings_results(copy, meaning, narrows=_has_other_operations(accelerator, gemm)) for _, copy, meaning in stores
    ):
        return
    stored = "; ".join(
        f"{copy.name} stores {copy.dram_dtype}" + (f" by {meaning.typed.statement}" if copy.operations else "")
        for _, copy, meaning in stores
    )
    at = stores[0][0] if len(stores) == 1 else "instructions"
    none = f"{stored}: no store brings results of {gemm.instruction.name} to the host; {_RESULTS}"
    require(condition=False, path=at, message=none)


def _check_layer_results(accelerator: Accelerator, layer: Layer) -> None:
    """Sums that begin as a bias must leave as int8 or int32 in a way that is known."""
    known = [meaning for meaning in layer_semantics(accelerator, layer) if meaning.ends is not None]
    for meaning in known:
        assert meaning.ends is not None
        memory = accelerator.memory(layer.operands[meaning.written].memory)
        way, dtype = copy_kind(meaning.ends), layer.type_in_dram(meaning.written, memory)
        if (dtype == "int32" and way == "plain") or (dtype == "int8" and way in ("scaled", "shifted")):
            return
    index = accelerator.instructions.index(layer)
    number = [each.name for each in layer.operations].index(known[0].operation.name)
    ending, expected = known[0].statements[-1].typed.statement, _RESULTS.replace("sram", "sums")
    none = f"{ending}: no results of {layer.name} reach the host; {expected}"
    require(condition=False, path=f"instructions.{index}.operations.{number}.ends", message=none)


def _brings_results(copy: Copy, meaning: Semantics, *, narrows: bool) -> bool:
    way = copy_kind(meaning)
    if copy.dram_dtype == "int32":
        return way == "plain"
    return copy.dram_dtype == "int8" and (way in ("scaled", "shifted") or (way == "plain" and narrows))


def _has_other_operations(accelerator: Accelerator, gemm: Contraction) -> bool:
    """Whether an operation other than the contraction's writes the accumulators."""
    contracts = (gemm.accumulate, gemm.zero, gemm.overwrite)
    return any(
        instruction.operands[meaning.typed.statement.target.name].memory == gemm.dst.memory.name
        for instruction in accelerator.instructions
        if isinstance(instruction, Compute)
        for meaning in semantics_of(accelerator, instruction)
        if meaning.operation not in contracts
    )


def check_reach(accelerator: Accelerator) -> None:
    """Refuses idle units, memories and operands, a second FINISH, and operand types that no model has.

    Raises:
        InvalidAccelerator: ``field`` is the path of the idle part, or of the type.
    """
    with together() as apart:
        for check in (_check_units, _check_memories, _check_operands, _check_ends):
            with apart():
                check(accelerator)
        _check_contraction(accelerator, contraction(accelerator))


def _check_units(accelerator: Accelerator) -> None:
    used = {instruction.unit for instruction in accelerator.instructions}
    with together() as apart:
        for index, unit in enumerate(accelerator.units):
            with apart():
                idle = f"no instruction is of unit {unit}; name it in one, or leave it out"
                require(unit in used, f"units.{index}", idle)


def _touched(accelerator: Accelerator) -> Iterator[tuple[str, bool]]:
    """The memories that instructions use, each with whether the instruction writes it."""
    for instruction in accelerator.instructions:
        if isinstance(instruction, Copy):
            yield instruction.memory, instruction.direction == "load"
        if isinstance(instruction, Layer):
            names = {operand.memory for operand in instruction.operands.values()} | instruction.uses.keys()
            yield from ((name, filled) for name in sorted(names) for filled in (True, False))
        if isinstance(instruction, Copy):
            yield from ((operand.memory, False) for operand in instruction.operands.values())
        if not isinstance(instruction, Compute):
            continue
        if instruction.microops is not None:
            yield instruction.microops.memory, False
        for meaning in semantics_of(accelerator, instruction):
            statement = meaning.typed.statement
            yield instruction.operands[statement.target.name].memory, True
            for name in statement.operands:
                yield instruction.operands[name].memory, False


def _check_memories(accelerator: Accelerator) -> None:
    touched = set(_touched(accelerator))
    holders = {memory.name: memory.holder for memory in accelerator.memories}
    shared = {(holders[name], filled) for name, filled in touched}
    with together() as apart:
        for index, memory in enumerate(accelerator.memories):
            at, name = f"memories.{index}", memory.name
            # what is written as one view may be read as another, and a memory be used by its views alone
            filled, read = (memory.holder, True) in shared, (memory.holder, False) in shared
            used = filled or read if memory.view_of is None else any((name, each) in touched for each in (True, False))
            with apart():
                require(used, at, f"no instruction uses {name}; one must, or leave it out")
                fill = f"a copy must load it, or a compute write it{_elsewhere(accelerator)}"
                require(filled, at, f"nothing fills {name}; {fill}")
                require(read, at, f"nothing uses what is in {name}; a copy must store it, or a compute read it")


def _elsewhere(accelerator: Accelerator) -> str:
    """A hint for the message: two loads of one memory, of which one may be meant for another."""
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
        if isinstance(instruction, Layer):
            statements = [each for meaning in layer_semantics(accelerator, instruction) for each in meaning.statements]
        elif isinstance(instruction, Compute | Copy):
            statements = list(semantics_of(accelerator, instruction))
        else:
            continue
        used = {name for meaning in statements for name in meaning.typed.tensors}
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
        (gemm.dst, ("int32", "int48", "int64"), "biases are int32, and sums are no narrower"),
    ):
        at = f"memories.{_number(accelerator, tile)}.dtype"
        wrong = f"{tile.memory.dtype}; {tile.name} of {gemm.instruction.name} must be {' or '.join(dtypes)}: {why}"
        require(tile.memory.dtype in dtypes, at, wrong)


def _number(accelerator: Accelerator, tile: Tile) -> int:
    return [memory.name for memory in accelerator.memories].index(tile.memory.name)
