"""Schedule of functions of rows: the nests of a tile, written down as they are.

A tile has a box of accumulators for what is stored, and perhaps one for what is summed, of which statistics are
gathered: each the sum of products with matrices of factors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tvm import tirx

from accel.accelerator.memories import Memory
from accel.accelerator.row_functions import RowFunctionName
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.ir.affine_nest import in_loops
from accel.lowering.ir.function_attributes import CONTEXTS_PRAGMA
from accel.lowering.ir.row_intrinsics import row_call
from accel.lowering.kinds.lanewise.lanewise_schedule import known_pragma, loop_nest, scratchpad_buffer
from accel.region.kinds import Region
from accel.region.rows import Rows

Product = tuple[int, Literal["data", "ones"]]
"""The number of the factors, and what is multiplied by them."""


@dataclass(frozen=True)
class RowBoxes:
    """What is in the accumulators of a tile: the ``products`` of what is stored, and of what is summed if it differs.

    ``together``: both are in one buffer, whose blocks leave room for that.
    """

    products: Sequence[Sequence[Product]]
    together: bool = False

    @property
    def factors(self) -> int:
        """Matrices of factors."""
        return 1 + max(number for products in self.products for number, _ in products)


def schedule_rows(
    function: tirx.PrimFunc,
    region: Region[Rows],
    capabilities: Capabilities,
    name: RowFunctionName,
    boxes: RowBoxes,
    constants: Sequence[int] = (),
) -> tirx.PrimFunc:
    """``function``, whose body becomes the nests of ``region``, with their pragmas: rows of the function ``name``."""
    return function.with_body(_RowTile(function, region, capabilities, name, boxes, constants).body())


class _RowTile:
    """The nests of one tile: rows of accumulators, of which the blocks lie as far apart as the store takes them."""

    def __init__(
        self,
        function: tirx.PrimFunc,
        region: Region[Rows],
        capabilities: Capabilities,
        name: RowFunctionName,
        boxes: RowBoxes,
        constants: Sequence[int],
    ) -> None:
        self.shape, self.tiling, self.gemm = region.shape, region.tiling, capabilities.gemm
        self.capabilities, self.name, self.boxes, self.constants = capabilities, name, boxes, constants
        self.data, self.factors, *ones, self.out = function.params
        self.ones = ones[0] if ones else None
        self.tile = tirx.Var("tile", "int32")
        self.size = self.shape.data.blocks, self.shape.rows
        self.line_shape = (self.shape.rows, *self.gemm.data.shape)  # a row each, so that products step alike
        store = capabilities.row_store(name)
        self.pragma = known_pragma(None if store is None else store.pragma, name)
        self.apart = 1 if store is None or store.blocks is None else store.blocks.apart or 1
        data, dst, blocks = self.gemm.data, self.gemm.dst, self.shape.data.blocks
        self.image = scratchpad_buffer("image", (*self.size, *data.shape), data.memory.dtype, data.memory.scope)
        weights = self.gemm.weights
        self.counts = (boxes.factors, *weights.shape)
        self.weights = scratchpad_buffer("factors", self.counts, weights.memory.dtype, weights.memory.scope)
        self.lines = scratchpad_buffer("ones", self.line_shape, data.memory.dtype, data.memory.scope)
        place = (blocks * self.apart, *dst.shape)
        names = ("stored", "summed")[: 1 if boxes.together else len(boxes.products)]
        made = [scratchpad_buffer(each, place, self.gemm.sum_dtype, dst.memory.scope) for each in names]
        self.buffers = made
        self.places = [(made[0 if boxes.together else at], self._first(at)) for at in range(len(boxes.products))]

    def _first(self, box: int) -> int:
        """The row of a block where those of a box begin."""
        return box * self.shape.rows if self.boxes.together else 0

    def body(self) -> tirx.Stmt:
        """The whole function."""
        statements: list[tirx.Stmt] = [tirx.AllocBuffer(each) for each in (self.image, *self.buffers)]
        statements.append(self._load())
        sources: dict[str, Callable[..., Any]] = {
            "data": lambda *at: self.image[at],
            "ones": lambda _block, row, *inner: self.lines[row, *inner],
        }
        for place, products in zip(self.places, self.boxes.products, strict=True):
            statements.append(self._begin(*place))
            statements += [self._sum(*place, number, sources[source]) for number, source in products]
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
        pragma = known_pragma(self.capabilities.load(memory.name, memory.dtype), self.name)
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

        pragma = known_pragma(self.capabilities.load(memory.name, memory.dtype), self.name)
        return loop_nest((*self.size, *self.gemm.data.shape), load, pragma)

    def _begin(self, box: Any, first_row: int) -> tirx.Stmt:
        """Zeros, which a product may overwrite."""
        zero = tirx.const(0, self.gemm.sum_dtype)

        def begin(block: Any, row: Any, *inner: Any) -> tirx.Stmt:
            return tirx.BufferStore(box, zero, [block * self.apart + first_row + row, *inner])

        return loop_nest((*self.size, *self.gemm.dst.shape), begin, self.gemm.instruction.pragma)

    def _sum(self, box: Any, first_row: int, number: int, data: Callable[..., Any]) -> tirx.Stmt:
        """A product of each row with one of the factors, onto what is there."""
        gemm = self.gemm

        def add(block: Any, row: Any, first: Any, second: Any, lane: Any) -> tirx.Stmt:
            at = dict(zip(gemm.dst.axes, (first, second), strict=True)) | {"k": lane}
            datum = data(block, row, *(at[axis] for axis in gemm.data.axes))
            factor = self.weights[number, *(at[axis] for axis in gemm.weights.axes)]
            place = [block * self.apart + first_row + row, first, second]
            product = datum.astype(gemm.sum_dtype) * factor.astype(gemm.sum_dtype)
            return tirx.BufferStore(box, box[tuple(place)] + product, place)

        return loop_nest((*self.size, *gemm.dst.shape, gemm.in_channels), add, gemm.instruction.pragma)

    def _store(self) -> tirx.Stmt:
        ends = self.places[0], self.places[-1]

        def store(row: Any, block: Any, *inner: Any) -> tirx.Stmt:
            stored, summed = (box[block * self.apart + first + row, *inner] for box, first in ends)
            value = row_call(self.name, stored, summed, self.constants, self.shape.columns)
            return tirx.BufferStore(self.out, value, [0, block, 0, self._row(row), *inner])

        return loop_nest((self.shape.rows, self.shape.data.blocks, *self.gemm.dst.shape), store, self.pragma)
