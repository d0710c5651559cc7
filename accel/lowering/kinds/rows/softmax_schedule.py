"""Schedule of softmax of rows: the nests of a tile, written down as they are."""

from typing import Any

from tvm import tirx

from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.ir.affine_nest import in_loops
from accel.lowering.ir.function_attributes import CONTEXTS_PRAGMA
from accel.lowering.ir.row_intrinsics import softmax_of_rows
from accel.lowering.kinds.lanewise.lanewise_schedule import known_pragma, loop_nest, scratchpad_buffer
from accel.region.kinds import Region
from accel.region.row_softmax import RowSoftmax

_WORK = "softmax"


def schedule_softmax(
    function: tirx.PrimFunc, region: Region[RowSoftmax], capabilities: Capabilities
) -> tirx.PrimFunc:
    """``function``, whose body becomes the nests of ``region``, with their pragmas."""
    return function.with_body(_RowTile(function, region, capabilities).body())


class _RowTile:
    """The nests of one tile: rows of accumulators, of which the blocks lie as far apart as the store takes them."""

    def __init__(self, function: tirx.PrimFunc, region: Region[RowSoftmax], capabilities: Capabilities) -> None:
        self.shape, self.tiling, self.gemm = region.shape, region.tiling, capabilities.gemm
        self.capabilities = capabilities
        self.data, self.identity, *offsets, self.out = function.params
        self.offset = offsets[0] if offsets else None
        self.tile = tirx.Var("tile", "int32")
        self.size = self.shape.data.blocks, self.shape.rows
        store = capabilities.row_store("softmax")
        self.pragma = known_pragma(None if store is None else store.pragma, _WORK)
        self.apart = 1 if store is None or store.blocks is None else store.blocks.apart or 1
        data, dst, blocks = self.gemm.data, self.gemm.dst, self.shape.data.blocks
        self.image = scratchpad_buffer("image", (*self.size, *data.shape), data.memory.dtype, data.memory.scope)
        weights = self.gemm.weights
        self.weight = scratchpad_buffer("diagonals", (1, *weights.shape), weights.memory.dtype, weights.memory.scope)
        place = (blocks * self.apart, *dst.shape)
        self.stored = scratchpad_buffer("stored", place, self.gemm.sum_dtype, dst.memory.scope)
        self.summed = scratchpad_buffer("summed", place, self.gemm.sum_dtype, dst.memory.scope)

    def body(self) -> tirx.Stmt:
        """The whole function."""
        boxes = [self.stored] if self.offset is None else [self.stored, self.summed]
        statements: list[tirx.Stmt] = [tirx.AllocBuffer(each) for each in (self.image, *boxes)]
        statements += [self._load(), self._begin(self.stored), self._weighed(self.stored)]
        if self.offset is not None:
            statements += [self._begin(self.summed), self._weighed(self.summed)]
        statements.append(self._store())
        tiles = in_loops(
            [self.tile], [self.shape.tiles], tirx.SeqStmt(statements), CONTEXTS_PRAGMA, self.tiling.result_contexts
        )
        return tirx.SeqStmt([tirx.AllocBuffer(self.weight), self._load_weight(), tiles])

    def _load_weight(self) -> tirx.Stmt:
        memory = self.gemm.weights.memory
        pragma = known_pragma(self.capabilities.load(memory.name, memory.dtype), _WORK)
        extents = (1, *self.gemm.weights.shape)
        return loop_nest(extents, lambda *at: tirx.BufferStore(self.weight, self.identity[at], list(at)), pragma)

    def _row(self, row: Any) -> Any:
        return self.tile * self.shape.step + row

    def _load(self) -> tirx.Stmt:
        memory = self.gemm.data.memory

        def load(block: Any, row: Any, *inner: Any) -> tirx.Stmt:
            return tirx.BufferStore(self.image, self.data[0, block, 0, self._row(row), *inner], [block, row, *inner])

        pragma = known_pragma(self.capabilities.load(memory.name, memory.dtype), _WORK)
        return loop_nest((*self.size, *self.gemm.data.shape), load, pragma)

    def _begin(self, box: Any) -> tirx.Stmt:
        """What sums go on from: 0, which a product may overwrite, or what makes them less."""
        memory = self.gemm.dst.memory
        zero = tirx.const(0, self.gemm.sum_dtype)
        offset = self.offset if box is self.summed else None

        def begin(block: Any, row: Any, *inner: Any) -> tirx.Stmt:
            value = zero if offset is None else offset[tuple(inner)]
            return tirx.BufferStore(box, value, [block * self.apart + row, *inner])

        pragma = self.gemm.instruction.pragma
        if offset is not None:
            pragma = known_pragma(self.capabilities.load(memory.name, memory.dtype_in_dram), _WORK)
        return loop_nest((*self.size, *self.gemm.dst.shape), begin, pragma)

    def _weighed(self, box: Any) -> tirx.Stmt:
        gemm = self.gemm

        def weigh(block: Any, row: Any, first: Any, second: Any, lane: Any) -> tirx.Stmt:
            at = dict(zip(gemm.dst.axes, (first, second), strict=True)) | {"k": lane}
            datum = self.image[block, row, *(at[axis] for axis in gemm.data.axes)]
            factor = self.weight[0, *(at[axis] for axis in gemm.weights.axes)]
            place = [block * self.apart + row, first, second]
            product = datum.astype(gemm.sum_dtype) * factor.astype(gemm.sum_dtype)
            return tirx.BufferStore(box, box[tuple(place)] + product, place)

        return loop_nest((*self.size, *gemm.dst.shape, gemm.in_channels), weigh, gemm.instruction.pragma)

    def _store(self) -> tirx.Stmt:
        summed = self.stored if self.offset is None else self.summed

        def store(row: Any, block: Any, *inner: Any) -> tirx.Stmt:
            place = (block * self.apart + row, *inner)
            value = softmax_of_rows(self.stored[place], summed[place], self.shape.softmax, self.shape.columns)
            return tirx.BufferStore(self.out, value, [0, block, 0, self._row(row), *inner])

        return loop_nest((self.shape.rows, self.shape.data.blocks, *self.gemm.dst.shape), store, self.pragma)
