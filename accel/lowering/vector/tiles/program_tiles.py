"""Tiles of a vector program: along which axes it is cut, and how many copies of its buffers there are."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from accel.accelerator.document import Accelerator, TokenSync
from accel.accelerator.memories import Memory
from accel.accelerator.target import Target
from accel.errors import CompileError
from accel.expression.syntax_tree import Access, Literal, Statement
from accel.lowering.kinds.program_operations import DoneAlike, ProgramOperations
from accel.lowering.vector.tiles.program_buffers import (
    Statements,
    has_loads_apart,
    loads_apart,
    loads_together,
    placed,
    renamed,
    sums_products,
    ways_to_load,
)
from accel.lowering.vector.tiles.program_cycles import ProgramCycles
from accel.region.kinds import Views
from accel.region.tilings import tile_extents
from accel.region.vector_program import UNIT, Stream, VectorProgram, VectorTensor

Parts = Mapping[int, Sequence[int]]
"""Of an axis how many elements are one behind the other where a tensor lies, before it goes on elsewhere."""

_Alike = tuple[VectorProgram, tuple[DoneAlike, ...]]
_CutAnew = tuple[_Alike, tuple[int, ...] | None, tuple[tuple[int, Sequence[int]], ...], Views]
_Chosen = tuple[tuple[int, ...], int, tuple[int, ...], bool, bool]
"""The tiles, the copies of each buffer, the statements whose loops are turned, whether loads are apart, and again."""

_NEARLY, _MOST_BESIDE = 1.05, 8  # times the estimate of the best tiles, which are from the clock by so much
_MOST_CONTEXTS = 3
_MOST_AGAIN = 4  # tiles that load what they have in common for themselves: of more it is little that the first waits
_MOST_TILES = 16  # times as many as the largest tiles that fit: loads and stores overlap but for so little then


def cut_program(whole: Statements, target: Target) -> VectorProgram | None:
    """Returns a program in the tiles that are estimated to be the best; None if not even the smallest fit."""
    uncut: dict[tuple[int, ...], VectorProgram] = {}
    for tile in _tiles(whole.extents, whole.rows):
        cut = tuple(axis for axis, extent in enumerate(whole.extents) if tile[axis] < extent)
        if cut not in uncut:
            uncut[cut] = placed(whole, cut)
    return _cheapest(uncut, whole.rows, target, (), {})


def suits(tile: Sequence[int], extents: Sequence[int], parts: Parts) -> bool:
    """Returns whether tiles are of whole parts of each axis, or within one."""
    return all(
        tile[axis] == extents[axis] or all(tile[axis] % part == 0 or part % tile[axis] == 0 for part in own)
        for axis, own in parts.items()
    )


class BestTiles:
    """The tiles of a target's programs cut anew, chosen once for those that are done alike."""

    def __init__(self, target: Target) -> None:
        self._target, self._operations = target, target.derived(ProgramOperations)
        self._known: dict[_CutAnew, _Chosen | None] = {}

    def of(
        self, program: VectorProgram, order: Sequence[int] | None, parts: Parts, views: Views = ()
    ) -> VectorProgram | None:
        """Returns a program cut anew, into the best tiles that suit its parts; None if none of them fits.

        Args:
            program: whose buffers stay as they are shared.
            order: of its axes, along the first of which it is cut; None: in that of its results.
            parts: of an axis how many elements are one behind the other before a tensor goes on elsewhere.
            views: how its tensors lie in DRAM.
        """
        if any(map(sums_products, program.parsed)) or program.stream is not None:
            return _best_tile(program, order, self._target, parts, views)
        alike = replace(program, statements=()), self._operations.done_alike(program)
        key = alike, None if order is None else tuple(order), tuple(sorted(parts.items())), views
        if key not in self._known:
            best = _best_tile(program, order, self._target, parts, views)
            self._known[key] = None if best is None else _chosen(best)
        chosen = self._known[key]
        if chosen is None:
            return None
        tile, contexts, turned, apart, again = chosen
        made = loads_together(program)
        made = loads_apart(made) if apart else made
        return replace(made, tile=tile, contexts=contexts, turned=turned, loads_again=again)


def tiles_beside(program: VectorProgram, target: Target, parts: Parts, views: Views) -> list[VectorProgram]:
    """Returns a program in tiles a little smaller or larger, as far as they are estimated to be nearly the best."""
    axis = next((axis for axis, extent in enumerate(program.extents) if 1 < program.tile[axis] < extent), None)
    if axis is None or program.stream is not None or any(map(sums_products, program.parsed)):
        return []
    accelerator, cycles, own = target.accelerator, target.derived(ProgramCycles), program.tile[axis]
    lanes = lanes_of(program.on_chip, accelerator).get(axis, 1)
    near = range(own * 3 // 4, min(own * 3 // 2 + 1, program.extents[axis]))
    tiles = [(*program.tile[:axis], extent, *program.tile[axis + 1 :]) for extent in near if extent and extent != own]
    able = [
        tile
        for tile in tiles
        if tile[axis] % lanes == 0 and suits(tile, program.extents, parts) and fits(program, tile, accelerator)
    ]
    if not able:
        return []
    most = _NEARLY * cycles.of(program, views)
    priced = sorted(zip(cycles.of_tiles(program, able, views), able, strict=True))
    return [cycles.turned(replace(program, tile=tile)) for price, tile in priced[:_MOST_BESIDE] if price <= most]


def _chosen(best: VectorProgram) -> _Chosen:
    return best.tile, best.contexts, best.turned, has_loads_apart(best), best.loads_again


def _best_tile(
    program: VectorProgram, order: Sequence[int] | None, target: Target, parts: Parts, views: Views
) -> VectorProgram | None:
    tensors = {tensor.name: tensor for tensor in program.tensors}
    names = [tensor.name for tensor in program.in_dram]
    first = len(names) - program.results
    whole = Statements(
        program.extents, tensors, tuple(names[:first]), tuple(names[first:]), program.parsed, program.stream
    )
    if whole.is_priced and suits(program.tile, program.extents, parts):
        return program
    if whole.stream is not None:  # whose tiles were chosen with its blocks
        return None
    rows = whole.rows if order is None else [axis for axis in order if axis in whole.rows]
    uncut: dict[tuple[int, ...], VectorProgram] = {}
    for tile in _tiles(program.extents, rows):
        cut = tuple(axis for axis, extent in enumerate(program.extents) if tile[axis] < extent)
        if cut not in uncut:
            uncut[cut] = replace(program, tile=tile, contexts=2 if cut else 1)
    return _cheapest(uncut, rows, target, views, parts)


def _cheapest(
    uncut: Mapping[tuple[int, ...], VectorProgram],
    rows: Sequence[int],
    target: Target,
    views: Views,
    parts: Parts,
) -> VectorProgram | None:
    """The best of the tiles that fit and suit, of a program as it is where it is cut along some axes.

    Its loads come into buffers that have been used or do not, whichever is faster. The smaller tiles of what has many
    already are left out: each loses more to beginnings than the one before.
    """
    accelerator, cycles = target.accelerator, target.derived(ProgramCycles)
    extents = next(iter(uncut.values())).extents
    ways = {cut: [*ways_to_load(program)] for cut, program in uncut.items()}
    made: dict[tuple[tuple[int, ...], int, int], VectorProgram] = {}  # each once, as it keeps what follows from it
    able: dict[tuple[tuple[int, ...], int, int], list[tuple[int, ...]]] = {}
    few = 0
    for tile in sorted(_tiles(extents, rows), key=lambda tile: _count(extents, tile)):
        cut = tuple(axis for axis, extent in enumerate(extents) if tile[axis] < extent)
        lanes = lanes_of(uncut[cut].on_chip, accelerator)
        if few and _count(extents, tile) > _MOST_TILES * few:
            break
        if not suits(tile, extents, parts) or any(tile[axis] % count for axis, count in lanes.items()):
            continue
        for way, program in enumerate(ways[cut]):
            for contexts in _contexts(program, _count(extents, tile), accelerator):
                key = cut, way, contexts
                if key not in made:
                    made[key] = replace(program, contexts=contexts)
                if fits(made[key], tile, accelerator):
                    able.setdefault(key, []).append(tile)
                    few = few or _count(extents, tile)
    try:
        found = {key: cycles.of_tiles(made[key], tiles, views) for key, tiles in able.items()}
    except CompileError:  # no instruction does a statement, whatever the tiles
        return None
    priced = [
        (price, _count(extents, tile), way, -contexts, cut, tile)
        for (cut, way, contexts), tiles in able.items()
        for price, tile in zip(found[cut, way, contexts], tiles, strict=True)
    ]
    if not priced:
        return None
    *_, way, contexts, cut, tile = min(priced)
    return cycles.turned(replace(made[cut, way, -contexts], tile=tile))


def _contexts(program: VectorProgram, tiles: int, accelerator: Accelerator) -> Sequence[int]:
    """How many copies of each buffer may be worth their place; none of many tiles that load again what they share.

    With three a tile loads while the one before computes, and the one before that is still stored. What waits for
    tokens waits for two. None are where too many tiles would load again what they have in common.
    """
    if program.loads_again and tiles > _MOST_AGAIN:
        return ()
    if isinstance(accelerator.synchronisation, TokenSync) or tiles < _MOST_CONTEXTS:
        return (program.contexts,)
    return (program.contexts, _MOST_CONTEXTS)


def _count(extents: Sequence[int], tile: Sequence[int]) -> int:
    """How many tiles there are."""
    return math.prod(-(-extent // part) for extent, part in zip(extents, tile, strict=True))


def obstacle(whole: Statements, accelerator: Accelerator) -> str:
    """Returns why a program does not fit a machine, whatever its tiles; empty where it does."""
    for tensor in whole.tensors.values():
        if tensor.memory and (found := _lane_obstacle(tensor, whole, accelerator.memory(tensor.memory))):
            return found
    lanes = lanes_of(whole.tensors.values(), accelerator)
    tile = tuple(
        min(lanes.get(axis, 1), extent) if axis in whole.rows else extent for axis, extent in enumerate(whole.extents)
    )
    if whole.stream is not None:
        axis = whole.stream.axis
        tile = (*tile[:axis], min(lanes.get(axis, 1), whole.extents[axis]), *tile[axis + 1 :])
    cut = tuple(axis for axis, extent in enumerate(whole.extents) if tile[axis] < extent)
    return "" if fits(placed(whole, cut), tile, accelerator) else "not even one row of it fits the memories"


def lanes_of(tensors: Iterable[VectorTensor], accelerator: Accelerator) -> dict[int, int]:
    """Returns the axes whose elements lie side by side in an element of a memory, and how many do."""
    found: dict[int, int] = {}
    for tensor in tensors:
        count = accelerator.memory(tensor.memory).element_count if tensor.memory else 1
        if count > 1 and tensor.axes:
            found[tensor.axes[-1]] = max(count, found.get(tensor.axes[-1], 1))
    return found


def _lane_obstacle(tensor: VectorTensor, whole: Statements, memory: Memory) -> str:
    """Why a tensor cannot lie in a memory whose elements are several numbers; empty where it can."""
    count = memory.element_count
    if count == 1:
        return ""
    if not tensor.axes or whole.extents[tensor.axes[-1]] % count:
        return f"its rows are no whole elements of {memory.name}, of {count} numbers each"
    for statement in whole.statements:
        names = (statement.target.name, *statement.operands)
        if tensor.name not in names or tensor.name in {table.name for table in statement.looked_up}:
            continue
        others = [whole.tensors[name].axes for name in names if not whole.tensors[name].memory]
        ends = [int(statement.axes[-1][1:]), *(_last(axes) for axes in others)]
        if any(end != tensor.axes[-1] for end in ends):
            return f"it moves numbers within elements of {memory.name}"
    return ""


def _last(axes: Sequence[int]) -> int:
    return next((axis for axis in reversed(axes) if axis != UNIT), UNIT)


def without_repeats(whole: Statements) -> Statements:
    """Returns a program that computes nothing twice, and nothing that it does not read; one with a stream as it is."""
    if whole.stream is not None:
        return whole
    made: dict[str, Access] = {}
    names: dict[str, str] = {}
    writes = [statement.target.name for statement in whole.statements]
    kept: list[Statement] = []
    for statement in whole.statements:
        now = renamed(statement, names)
        once = writes.count(statement.target.name) == 1 and whole.tensors[statement.target.name].memory
        stable = all(writes.count(name) <= 1 for name in now.operands)
        key = f"{now.target.indices} {now.value}"
        if once and stable and statement.combiner is None and not isinstance(now.value, Literal):
            if key in made:
                names[statement.target.name] = made[key].name
                continue
            made[key] = now.target
        kept.append(now)
    return replace(whole, statements=tuple(_needed(kept, whole)))


def _needed(statements: Sequence[Statement], whole: Statements) -> list[Statement]:
    wanted, kept = set(whole.results), list[Statement]()
    for statement in reversed(statements):
        if statement.target.name in wanted:
            wanted.update(statement.operands)
            kept.append(statement)
    return kept[::-1]


def _tiles(extents: Sequence[int], rows: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Tiles of one, of a few or of all elements along one axis, of one along those outside and of all inside."""
    yield tuple(extents)
    for place, axis in enumerate(rows):
        for extent in tile_extents(extents[axis]):
            tile = list(extents)
            for outer in rows[:place]:
                tile[outer] = 1
            tile[axis] = extent
            yield tuple(tile)


def fits(program: VectorProgram, tile: Sequence[int], accelerator: Accelerator) -> bool:
    """Returns whether a program, however it is cut along its axes, fits with such tiles."""
    if program.stream is not None:
        return _fits_streamed(program, tile, program.stream, accelerator)
    used: dict[str, int] = {}
    rest = [extent % part or part for extent, part in zip(program.extents, tile, strict=True)]
    for tensor in program.on_chip:
        memory = accelerator.memory(tensor.memory)
        once = tensor.name in program.shared
        for part in [tile] if once or rest == list(tile) else [tile, rest]:  # the last tile has buffers of its own
            scalars = math.prod(part[axis] for axis in tensor.axes)
            copies = 1 if once else program.contexts
            used[tensor.memory] = used.get(tensor.memory, 0) + copies * -(-scalars // memory.element_count)
    return accelerator.fits(used)


def _fits_streamed(program: VectorProgram, tile: Sequence[int], stream: Stream, accelerator: Accelerator) -> bool:
    """Whether a program with a stream fits: what blocks alone use is there for each block that is under way."""
    used: dict[str, int] = {}
    rest = [extent % part or part for extent, part in zip(program.extents, tile, strict=True)]
    block, last = tile[stream.axis], rest[stream.axis]
    once = 1 if stream.axis in program.cut else program.contexts  # tiles overlap then, and else blocks
    copies = [(block, program.contexts)] if last == block else [(block, program.contexts), (last, 1)]
    tiles = [list(tile), rest] if any(rest[axis] != tile[axis] for axis in program.tiled) else [list(tile)]
    for tensor in program.on_chip:
        memory = accelerator.memory(tensor.memory)
        for part in tiles[:1] if tensor.name in program.shared else tiles:
            for elements, count in copies if tensor.name in program.of_blocks else [(block, once)]:
                sizes = (elements if axis == stream.axis else part[axis] for axis in tensor.axes)
                used[tensor.memory] = used.get(tensor.memory, 0) + count * -(-math.prod(sizes) // memory.element_count)
    return accelerator.fits(used)
