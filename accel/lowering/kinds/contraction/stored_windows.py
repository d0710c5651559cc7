"""The store of a scheduled tile of sums as one of windows: it leaves the largest of each, not the sums.

Where windows leave the image the accumulators of a tile lie within a border, which loads fill with what is less than
any sum.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from tvm import ir, s_tir, tirx
from tvm.ir import TensorLoad, TensorRegion
from tvm_ffi import structural_mutate

from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.ir.affine_nest import in_loops, simplify, substitute
from accel.lowering.ir.epilogue_arithmetic import largest_of
from accel.lowering.ir.tir_walk import collect, loads_of
from accel.lowering.kinds.contraction.image_parts import LOWEST, ImageParts
from accel.lowering.kinds.contraction.tile_schedule import load_pragma
from accel.lowering.kinds.lanewise.lanewise_schedule import known_pragma
from accel.region.epilogue import Epilogue

Images = Mapping[Any, Any]
"""Tensors of sums, and the same within borders."""

_RESULT = "result0"
_TILE_LOOPS = 5  # over its blocks, rows, columns, and the two axes of an element; those before are of one iteration
_ROW = 2  # the axis of rows


def with_stored_windows(
    scheduled: tirx.PrimFunc, like: tirx.PrimFunc, parts: ImageParts, epilogue: Epilogue, capabilities: Capabilities
) -> tirx.PrimFunc:
    """The function with the store of its sums in windows.

    Args:
        scheduled: whose tiles store all sums.
        like: whose results are the windows; its name and attributes stay.
        parts: how the tiles lie on the image of sums.
        epilogue: how each sum leaves.
        capabilities: what the accelerator can do.
    """
    plain, results = capabilities.store(epilogue.result, epilogue.scaling), capabilities.gemm.dst.memory
    pragma = known_pragma(capabilities.store_of_windows(epilogue.result, epilogue.scaling).pragma, "windows")
    out = tirx.decl_buffer(tuple(like.params[-1].shape), epilogue.result, _RESULT)
    lowest = next((each for each in like.params if str(each.name) == LOWEST), None)
    images = _images(scheduled.body, parts, results.scope)

    def loop(statement: tirx.For, mutator: Any) -> tirx.Stmt:
        if plain is None or plain not in statement.annotations:
            return mutator.default_mutate(statement)
        tile = _Tile(statement, parts, images)
        stored = tile.store(out, pragma)
        fills = []
        if lowest is not None:
            fills = tile.fills(lowest, load_pragma(capabilities, results, results.dtype_in_dram))
        return tirx.SeqStmt([*fills, stored]) if fills else stored

    body = structural_mutate(scheduled.body, (tirx.For, loop))
    body = _within_borders(body, parts, images)
    added = [] if lowest is None else [lowest]
    return tirx.PrimFunc([*scheduled.params[:-1], *added, out], body, scheduled.ret_type, like.attrs)


def _images(body: tirx.Stmt, parts: ImageParts, scope: str) -> Images:
    """The tensors of accumulators of all tiles as they lie within borders; none where these have none."""
    if not parts.bordered:
        return {}
    pitches = [parts.tiling.out_pitch_h, parts.tiling.out_pitch_w]
    extents = [pitch // span * own for pitch, span, own in zip(pitches, parts.spans, parts.extents, strict=True)]
    found: dict[Any, Any] = {}
    for buffer in itertools.chain(*(block.alloc_buffers for block in collect(body, s_tir.SBlock))):
        shape = [int(each) for each in buffer.shape]
        if buffer.scope() == scope and shape[_ROW : _ROW + 2] == pitches:
            shape[_ROW : _ROW + 2] = extents
            found[buffer] = tirx.decl_buffer(shape, str(buffer.dtype), str(buffer.name), scope=scope)
    return found


def _within_borders(body: tirx.Stmt, parts: ImageParts, images: Images) -> tirx.Stmt:
    """A function's body with its accumulators as they lie within borders."""

    def within(indices: Sequence[Any]) -> list[Any]:
        at = list(indices)
        for axis, (span, extent) in enumerate(zip(parts.spans, parts.extents, strict=True)):
            place = at[_ROW + axis]
            own = tirx.floordiv(place, span) * extent + tirx.floormod(place, span)
            at[_ROW + axis] = own + parts.borders[axis][0]
        return at

    def load(value: TensorLoad, mutator: Any) -> Any:
        if value.source not in images:
            return mutator.default_mutate(value)
        return tirx.BufferLoad(images[value.source], within(value.indices))

    def store(statement: tirx.BufferStore, mutator: Any) -> Any:
        if statement.buffer not in images:
            return mutator.default_mutate(statement)
        value = mutator.mutate(statement.value)
        return tirx.BufferStore(images[statement.buffer], value, within(statement.indices))

    def part(given: TensorRegion, _mutator: Any) -> TensorRegion:
        if given.source not in images:
            return given
        least, extents = within([each.min for each in given.region]), [each.extent for each in given.region]
        ranges = [ir.Range.from_min_extent(*each) for each in zip(least, extents, strict=True)]
        return tirx.BufferRegion(images[given.source], ranges)

    def block(given: s_tir.SBlock, mutator: Any) -> s_tir.SBlock:
        made = mutator.default_mutate(given)
        buffers = [images.get(each, each) for each in made.alloc_buffers]
        return s_tir.SBlock(
            made.iter_vars, made.reads, made.writes, made.name_hint, made.body, made.init, buffers,
            made.match_buffers, made.annotations,
        )  # fmt: skip

    rules = [(TensorLoad, load), (tirx.BufferStore, store), (TensorRegion, part), (s_tir.SBlock, block)]
    return structural_mutate(body, rules) if images else body


class _Tile:
    """A tile of sums in a scheduled function, whose nest ``nest`` stores all of them."""

    def __init__(self, nest: tirx.For, parts: ImageParts, images: Images) -> None:
        self.parts = parts
        loops, statement = list[tirx.For](), nest
        while isinstance(statement, tirx.For):
            loops.append(statement)
            statement = statement.body
        self.loops = loops[-_TILE_LOOPS:]
        self.body: tirx.BufferStore = statement.block.body
        own = {loop.loop_var: tirx.const(0, "int32") for loop in loops}
        self.first = [simplify(substitute(value, own)) for value in statement.iter_values]
        self.at = [simplify(tirx.floordiv(self.first[_ROW + axis], span)) for axis, span in enumerate(parts.spans)]
        (sums,) = {load.source for load in loads_of(self.body.value)}
        self.image = images.get(sums, sums)

    def store(self, out: Any, pragma: str) -> tirx.Stmt:
        """The nest over the windows of the tile, under the pragma of their store."""
        block, _, _, *inner = [loop.loop_var for loop in self.loops]
        row, column = tirx.Var("row", "int32"), tirx.Var("column", "int32")
        outer = [self.first[0], self.first[1] + block]

        def stored(_block: Any, *at: Any) -> Any:
            places = [self._first(axis) + self.parts.ahead(axis, self.at[axis]) + each for axis, each in enumerate(at)]
            element = tirx.BufferLoad(self.image, [*outer, *places, *inner])
            return structural_mutate(self.body.value, (TensorLoad, lambda _load, _mutator: element))

        value = largest_of(stored, self.parts.pooled.window, (0, row, column))
        rows = [self.parts.window(axis, self.at[axis]) + each for axis, each in enumerate((row, column))]
        made = tirx.BufferStore(out, value, [*outer, *rows, *inner])
        extents = [int(self.loops[0].extent), *self.parts.counts, *(int(loop.extent) for loop in self.loops[3:])]
        return in_loops([block, row, column, *inner], extents, self._block(made), pragma)

    def fills(self, lowest: Any, pragma: str) -> list[tirx.Stmt]:
        """The nests that fill the border of the tile: rows before and behind it, then columns between these."""
        (above, below), (left, right) = self.parts.borders
        (high, wide), (rows, columns) = self.parts.extents, self.parts.spans
        boxes = [
            ((0, above), (0, wide)),
            ((above + rows, below), (0, wide)),
            ((above, rows), (0, left)),
            ((above, rows), (left + columns, right)),
        ]
        assert (above + rows + below, left + columns + right) == (high, wide)
        return [self._fill(lowest, pragma, *box) for box in boxes if box[0][1] and box[1][1]]

    def _fill(self, lowest: Any, pragma: str, rows: tuple[int, int], columns: tuple[int, int]) -> tirx.Stmt:
        """The nest that loads a box of the border: the first row and how many there are, and columns."""
        extents = [int(self.loops[0].extent), rows[1], columns[1], *(int(loop.extent) for loop in self.loops[3:])]
        variables = [tirx.Var(f"fill{axis}", "int32") for axis in range(len(extents))]
        block, row, column, *inner = variables
        places = [
            self._image_first(axis) + first + each
            for axis, (first, each) in enumerate(((rows[0], row), (columns[0], column)))
        ]
        store = tirx.BufferStore(
            self.image, lowest[tuple(inner)], [self.first[0], self.first[1] + block, *places, *inner]
        )
        reads = [tirx.BufferRegion(lowest, [_one(each) for each in inner])]
        writes = [tirx.BufferRegion(self.image, [_one(each) for each in store.indices])]
        realize = s_tir.SBlockRealize([], tirx.const(True, "bool"), s_tir.SBlock([], reads, writes, "border", store))
        return in_loops(variables, extents, realize, pragma)

    def _image_first(self, axis: int) -> Any:
        """The first row or column of the tile, with its border."""
        return self.at[axis] * self.parts.extents[axis]

    def _first(self, axis: int) -> Any:
        """The first row or column of the sums of the tile."""
        return self._image_first(axis) + self.parts.borders[axis][0]

    def _block(self, store: tirx.BufferStore) -> tirx.Stmt:
        """The store in a block that says what it reads: no more than the tile, wherever in it windows begin."""
        parts = [
            ir.Range.from_min_extent(self._image_first(axis), extent) for axis, extent in enumerate(self.parts.extents)
        ]
        around = [_one(each) for each in store.indices]
        reads = [tirx.BufferRegion(self.image, [*around[:_ROW], *parts, *around[_ROW + 2 :]])]
        writes = [tirx.BufferRegion(store.buffer, around)]
        block = s_tir.SBlock([], reads, writes, _RESULT, store, annotations={"explicit_read_region": [0]})
        return s_tir.SBlockRealize([], tirx.const(True, "bool"), block)


def _one(index: Any) -> Any:
    return ir.Range.from_min_extent(index, 1)
