"""Schedule of softmax of rows: the nests of a tile, written down as they are."""

from collections.abc import Callable
from typing import Any

from tvm import tirx

from accel.accelerator.memories import Memory
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.ir.affine_nest import in_loops
from accel.lowering.ir.function_attributes import CONTEXTS_PRAGMA
from accel.lowering.ir.row_intrinsics import softmax_of_rows
from accel.lowering.kinds.lanewise.lanewise_schedule import known_pragma, loop_nest, scratchpad_buffer
from accel.region.kinds import Region
from accel.region.row_softmax import RowSoftmax

_WORK = "softmax"


def schedule_softmax(function: tirx.PrimFunc, region: Region[RowSoftmax], capabilities: Capabilities) -> tirx.PrimFunc:
    """``function``, whose body becomes the nests of ``region``, with their pragmas."""
    return function.with_body(_RowTile(function, region, capabilities).body())


class _RowTile:
    """The nests of one tile: rows of accumulators, of which the blocks lie as far apart as the store takes them."""

    def __init__(self, function: tirx.PrimFunc, region: Region[RowSoftmax], capabilities: Capabilities) -> None:
        self.shape, self.tiling, self.gemm = region.shape, region.tiling, capabilities.gemm
        self.capabilities = capabilities
        self.data, self.factors, *ones, self.out = function.params
        self.ones = ones[0] if ones else None
        self.tile = tirx.Var("tile", "int32")
        self.size = self.shape.data.blocks, self.shape.rows
        self.line_shape = (self.shape.rows, *self.gemm.data.shape)  # a row each, so that products step alike
        store = capabilities.row_store("softmax")
        self.pragma = known_pragma(None if store is None else store.pragma, _WORK)
        self.apart = 1 if store is None or store.blocks is None else store.blocks.apart or 1
        data, dst, blocks = self.gemm.data, self.gemm.dst, self.shape.data.blocks
        self.image = scratchpad_buffer("image", (*self.size, *data.shape), data.memory.dtype, data.memory.scope)
        weights = self.gemm.weights
        self.counts = (1 if self.ones is None else 2, *weights.shape)
        self.weights = scratchpad_buffer("factors", self.counts, weights.memory.dtype, weights.memory.scope)
        self.lines = scratchpad_buffer("ones", self.line_shape, data.memory.dtype, data.memory.scope)
        place = (blocks * self.apart, *dst.shape)
        self.stored = scratchpad_buffer("stored", place, self.gemm.sum_dtype, dst.memory.scope)
        self.summed = scratchpad_buffer("summed", place, self.gemm.sum_dtype, dst.memory.scope)

    def body(self) -> tirx.Stmt:
        """The whole function."""
        boxes = [self.stored] if self.ones is None else [self.stored, self.summed]
        statements: list[tirx.Stmt] = [tirx.AllocBuffer(each) for each in (self.image, *boxes)]
        statements.append(self._load())
        for box in boxes:
            statements += [self._begin(box), self._sum(box, 0, lambda *at: self.image[at])]
        if self.ones is not None:
            statements.append(self._sum(self.summed, 1, lambda _block, row, *inner: self.lines[row, *inner]))
        statements.append(self._store())
        tiles = in_loops(
            [self.tile], [self.shape.tiles], tirx.SeqStmt(statements), CONTEXTS_PRAGMA, self.tiling.result_contexts
        )
        constants = [(self.weights, self.factors, self.counts, self.gemm.weights.memory)]
        if self.ones is not None:
            constants.append((self.lines, self.ones, self.line_shape, self.gemm.data.memory))
        loads = [part for each in constants for part in (tirx.AllocBuffer(each[0]), self._load_constant(*each))]
        return tirx.SeqStmt([*loads, tiles])

    def _load_constant(self, buffer: Any, source: Any, extents: tuple[int, ...], memory: Memory) -> tirx.Stmt:
        pragma = known_pragma(self.capabilities.load(memory.name, memory.dtype), _WORK)
        return loop_nest(extents, lambda *at: tirx.BufferStore(buffer, source[at], list(at)), pragma)

    def _row(self, row: Any) -> Any:
        """A row of a tile; the last tile ends with the last row."""
        rows, whole = self.shape.rows, self.shape.data.width
        first = self.tile * rows
        return (first if whole % rows == 0 else tirx.min(first, tirx.const(whole - rows, "int32"))) + row

    def _load(self) -> tirx.Stmt:
        memory = self.gemm.data.memory

        def load(block: Any, row: Any, *inner: Any) -> tirx.Stmt:
            return tirx.BufferStore(self.image, self.data[0, block, 0, self._row(row), *inner], [block, row, *inner])

        pragma = known_pragma(self.capabilities.load(memory.name, memory.dtype), _WORK)
        return loop_nest((*self.size, *self.gemm.data.shape), load, pragma)

    def _begin(self, box: Any) -> tirx.Stmt:
        """Zeros, which a product may overwrite."""
        zero = tirx.const(0, self.gemm.sum_dtype)

        def begin(block: Any, row: Any, *inner: Any) -> tirx.Stmt:
            return tirx.BufferStore(box, zero, [block * self.apart + row, *inner])

        return loop_nest((*self.size, *self.gemm.dst.shape), begin, self.gemm.instruction.pragma)

    def _sum(self, box: Any, number: int, data: Callable[..., Any]) -> tirx.Stmt:
        """A product of each row with one of the factors, onto what is there."""
        gemm = self.gemm

        def add(block: Any, row: Any, first: Any, second: Any, lane: Any) -> tirx.Stmt:
            at = dict(zip(gemm.dst.axes, (first, second), strict=True)) | {"k": lane}
            datum = data(block, row, *(at[axis] for axis in gemm.data.axes))
            factor = self.weights[number, *(at[axis] for axis in gemm.weights.axes)]
            place = [block * self.apart + row, first, second]
            product = datum.astype(gemm.sum_dtype) * factor.astype(gemm.sum_dtype)
            return tirx.BufferStore(box, box[tuple(place)] + product, place)

        return loop_nest((*self.size, *gemm.dst.shape, gemm.in_channels), add, gemm.instruction.pragma)

    def _store(self) -> tirx.Stmt:
        summed = self.stored if self.ones is None else self.summed

        def store(row: Any, block: Any, *inner: Any) -> tirx.Stmt:
            place = (block * self.apart + row, *inner)
            value = softmax_of_rows(self.stored[place], summed[place], self.shape.softmax, self.shape.columns)
            return tirx.BufferStore(self.out, value, [0, block, 0, self._row(row), *inner])

        return loop_nest((self.shape.rows, self.shape.data.blocks, *self.gemm.dst.shape), store, self.pragma)
