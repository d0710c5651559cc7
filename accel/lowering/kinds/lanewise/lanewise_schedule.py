"""Schedule of a region that is made of steps: each becomes a nest of loops, written down as it is."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

from accel.errors import CompileError
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.lanewise_capabilities import tile_planner
from accel.lowering.ir.affine_nest import in_loops
from accel.lowering.ir.document_paths import INSTRUCTIONS
from accel.lowering.ir.epilogue_arithmetic import apply_pair, apply_steps, largest_of, stored_value
from accel.lowering.ir.function_attributes import CONTEXTS_PRAGMA
from accel.region.epilogue import TENSOR_OPS
from accel.region.kinds import Region, lane_tile
from accel.region.tile_steps import AccumulatorBlock, Apply, Clear, Lanewise, Load, Merge, Step, Take

Int = Any  # a tirx.Expr of int32, or an int


def loop_nest(
    extents: Sequence[int], store: Callable[..., tirx.Stmt], pragma: str | None = None, value: int = 1
) -> tirx.Stmt:
    """Loops around what ``store`` makes of their variables; the first carries ``pragma``, if it is given."""
    variables = [tirx.Var(f"i{number}", "int32") for number in range(len(extents))]
    return in_loops(variables, extents, store(*variables), pragma, value)


def scratchpad_buffer(name: str, shape: Sequence[int], dtype: str, scope: str) -> Any:
    """A buffer in a scratchpad."""
    return tirx.decl_buffer(tuple(shape), dtype, name, scope=scope)


def schedule_lanewise(function: tirx.PrimFunc, region: Region[Lanewise], capabilities: Capabilities) -> tirx.PrimFunc:
    """``function``, whose body becomes the nests of ``region``, with their pragmas."""
    return function.with_body(_LanewiseTile(function, region, capabilities).body())


def known_pragma(pragma: str | None, work: str = "elementwise work") -> str:
    """Returns the pragma of a step.

    Raises:
        CompileError: there is none.
    """
    if pragma is None:
        raise CompileError(f"the accelerator has no instruction for a step of {work}", field=INSTRUCTIONS)
    return pragma


class _LanewiseTile:
    """The nests of one tile; ``block``, ``row`` and ``column`` are the tile's first, of the result."""

    def __init__(self, function: tirx.PrimFunc, region: Region[Lanewise], capabilities: Capabilities) -> None:
        self.shape, self.region, self.capabilities = region.shape, region, capabilities
        self.tiling, self.gemm = region.tiling, capabilities.gemm
        self.dram = list(function.params)
        self.source = lane_tile(capabilities.gemm, direct=self.shape.direct)
        self.plan = tile_planner(self.shape, capabilities)(self.tiling.out_rows, self.tiling.out_columns)
        self.reach = self.shape.reach(self.tiling.out_rows, self.tiling.out_columns)
        blocks, scope = self.tiling.out_blocks, capabilities.gemm.dst.memory.scope
        self.boxes = {
            box.name: scratchpad_buffer(
                box.name, (blocks, *box.extents, *self.gemm.dst.shape), self.gemm.sum_dtype, scope
            )
            for box in self.plan.boxes
        }
        data, weights = self.gemm.data, self.gemm.weights
        size, count = (blocks, *self.reach, *data.shape), (len(self.shape.factors), *weights.shape)
        self.images = [
            scratchpad_buffer(f"image{number}", size, data.memory.dtype, data.memory.scope)
            for number in range(len(self.shape.operands))
        ]
        self.bias = scratchpad_buffer("bias", (blocks, *self.gemm.dst.shape), self.gemm.sum_dtype, scope)
        self.diagonals = scratchpad_buffer("diagonals", count, weights.memory.dtype, weights.memory.scope)
        self.at = [tirx.Var(name, "int32") for name in ("n", "c", "y", "x")]
        n, c, y, x = self.at
        self.batch, self.block = n, c * self.tiling.out_blocks
        self.row, self.column = y * self.tiling.out_rows, x * self.tiling.out_columns

    def body(self) -> tirx.Stmt:
        """The whole function."""
        tiling, data, direct = self.tiling, self.shape.operands[0], self.shape.direct
        statements = [tirx.AllocBuffer(box) for box in self.boxes.values()]
        if not direct:
            statements += [tirx.AllocBuffer(image) for image in self.images]
            statements += [self._load(number) for number in range(len(self.images))]
        statements += [self._step(step) for step in self.plan.steps]
        result = self.plan.result
        for steps in self.region.epilogue.grouped:
            statements.append(self._epilogue_step(Apply(result, (tiling.out_rows, tiling.out_columns), steps)))
        statements.append(self._store())
        extents = (
            data.batch, data.blocks // tiling.out_blocks, tiling.out_pitch_h // tiling.out_rows,
            tiling.out_pitch_w // tiling.out_columns,
        )  # fmt: skip
        inner = in_loops(self.at[3:], extents[3:], tirx.SeqStmt(statements), CONTEXTS_PRAGMA, tiling.result_contexts)
        rows = in_loops(self.at[2:3], extents[2:3], inner)
        if self.region.epilogue.has_bias:
            rows = tirx.SeqStmt([tirx.AllocBuffer(self.bias), self._load_bias(), rows])
        tiles = in_loops(self.at[:2], extents[:2], rows)
        return tiles if direct else tirx.SeqStmt([tirx.AllocBuffer(self.diagonals), self._load_diagonals(), tiles])

    def _load_diagonals(self) -> tirx.Stmt:
        memory, source = self.gemm.weights.memory, self.dram[len(self.images)]
        pragma = known_pragma(self.capabilities.load(memory.name, memory.dtype))
        extents = (len(self.shape.factors), *self.gemm.weights.shape)
        return loop_nest(extents, lambda *at: tirx.BufferStore(self.diagonals, source[at], list(at)), pragma)

    def _load_bias(self) -> tirx.Stmt:
        """What each channel of the tile's blocks adds."""
        memory, source = self.gemm.dst.memory, self.dram[len(self.images) + (not self.shape.direct)]

        def store(block: Any, *inner: Any) -> tirx.Stmt:
            return tirx.BufferStore(self.bias, source[self.block + block, *inner], [block, *inner])

        pragma = known_pragma(self.capabilities.load(memory.name, memory.dtype_in_dram))
        return loop_nest((self.tiling.out_blocks, *self.gemm.dst.shape), store, pragma)

    def _epilogue_step(self, step: Apply) -> tirx.Stmt:
        """A step of the epilogue, which may add a number a channel."""
        if not any(name in TENSOR_OPS for name, _ in step.steps):
            return self._step(step)
        pragma = known_pragma(self.capabilities.steps(step.steps).pragma)
        return self._each(step, lambda box, at: apply_steps(box[at], step.steps, self.bias[at[0], *at[3:]]), pragma)

    def _load(self, operand: int) -> tirx.Stmt:
        """The tile's part of an operand, with zeros where it lies outside the image."""
        memory, image = self.gemm.data.memory, self.images[operand]

        def store(*at: Any) -> tirx.Stmt:
            block, y, x, *inner = at
            return tirx.BufferStore(image, self._read(operand, block, y, x, inner), list(at))

        extents = (self.tiling.out_blocks, *self.reach, *self.source.shape)
        return loop_nest(extents, store, known_pragma(self.capabilities.load(memory.name, memory.dtype)))

    def _read(self, operand: int, block: Any, y: Any, x: Any, inner: Any) -> Any:
        """The datum in row ``y`` and column ``x`` of those that the tile reads."""
        (down, right), padding, tiling = self.shape.strides, self.shape.padding, self.tiling
        data = self.shape.operands[operand]
        bounds: list[tirx.Expr] = []
        place: list[tirx.Expr] = []
        for first, at, before, size, last in (
            (self.row * down, y, padding[0], data.height, (tiling.out_pitch_h - tiling.out_rows) * down),
            (self.column * right, x, padding[1], data.width, (tiling.out_pitch_w - tiling.out_columns) * right),
        ):
            index = first + at - before
            if before or last + self.reach[len(place)] - before > size:
                bounds += [index >= 0, index < size]
            place.append(index)
        value = self.dram[operand][self.batch, self.block + block, *place, *inner]
        return tirx.if_then_else(tirx.all(*bounds), value, tirx.const(0, "int8")) if bounds else value

    def _step(self, step: Step) -> tirx.Stmt:
        if isinstance(step, Load):
            return self._loaded(step)
        if isinstance(step, Clear):
            return self._cleared(step)
        if isinstance(step, Take):
            return self._taken(step)
        if isinstance(step, Apply):
            pragma = known_pragma(self.capabilities.steps(step.steps).pragma)
            return self._each(step, lambda box, at: apply_steps(box[at], step.steps), pragma)
        return self._merged(step)

    def _cleared(self, step: Clear) -> tirx.Stmt:
        if self.region.epilogue.start == "zero":
            return self._each(step, lambda _box, _at: tirx.const(0, self.gemm.sum_dtype), self.gemm.instruction.pragma)
        memory, zeros = self.gemm.dst.memory, self.dram[-2]
        pragma = known_pragma(self.capabilities.load(memory.name, memory.dtype_in_dram))
        return self._each(step, lambda _box, at: zeros[tuple(at[3:])], pragma)

    def _each(self, step: Clear | Apply | Merge, value: Any, pragma: str) -> tirx.Stmt:
        """Every element of a box by what ``value`` makes of the box and the indices."""
        box = self.boxes[step.box.name]
        extents = (self.tiling.out_blocks, *step.extents, *self.gemm.dst.shape)
        return loop_nest(extents, lambda *at: tirx.BufferStore(box, value(box, at), list(at)), pragma)

    def _loaded(self, step: Load) -> tirx.Stmt:
        box, (down, right) = self.boxes[step.box.name], (1, 1) if step.dense else self.shape.strides

        def store(*at: Any) -> tirx.Stmt:
            block, y, x, *inner = at
            value = self._read(step.operand, block, y * down + step.first[0], x * right + step.first[1], inner)
            value = value.astype(self.gemm.sum_dtype)
            return tirx.BufferStore(box, box[at] + value if step.adds else value, list(at))

        extents = (self.tiling.out_blocks, *step.extents, *self.gemm.dst.shape)
        loads = self.capabilities.loading(self.gemm.dst.memory.name, "int8", adds=step.adds)
        return loop_nest(extents, store, known_pragma(loads.pragma))

    def _taken(self, step: Take) -> tirx.Stmt:
        box, gemm, (down, right) = self.boxes[step.box.name], self.gemm, self.shape.strides
        image = self.images[step.operand]

        def store(block: Any, y: Any, x: Any, first: Any, second: Any, lane: Any) -> tirx.Stmt:
            at = dict(zip(gemm.dst.axes, (first, second), strict=True)) | {"k": lane}
            pixel = (y * down + step.first[0], x * right + step.first[1])
            datum = image[block, *pixel, *(at[axis] for axis in gemm.data.axes)]
            weight = self.diagonals[step.factor, *(at[axis] for axis in gemm.weights.axes)]
            place = [block, y, x, first, second]
            product = datum.astype(gemm.sum_dtype) * weight.astype(gemm.sum_dtype)
            return tirx.BufferStore(box, box[tuple(place)] + product, place)

        extents = (self.tiling.out_blocks, *step.extents, *gemm.dst.shape, gemm.in_channels)
        return loop_nest(extents, store, gemm.instruction.pragma)

    def _merged(self, step: Merge) -> tirx.Stmt:
        other, (down, right) = self.boxes[step.other.name], step.shift

        def value(box: Any, at: Any) -> Any:
            block, y, x, *inner = at
            return apply_pair(box[at], step.name, other[block, y + down, x + right, *inner])

        return self._each(step, value, known_pragma(self.capabilities.pair(step.name).pragma))

    def _store(self) -> tirx.Stmt:
        result: AccumulatorBlock = self.plan.result
        box, out, epilogue = self.boxes[result.name], self.dram[-1], self.region.epilogue
        windows, pragma = self.shape.stored_windows, self.capabilities.store(epilogue.result, epilogue.scaling)
        if windows is not None:
            pragma = self.capabilities.store_of_windows(epilogue.result, epilogue.scaling).pragma

        def stored(*at: Any) -> Any:
            return stored_value(box[at], epilogue.result, epilogue.scaling)

        def store(*at: Any) -> tirx.Stmt:
            block, y, x, *inner = at
            place = [self.batch, self.block + block, self.row + y, self.column + x, *inner]
            value = stored(*at) if windows is None else largest_of(stored, windows, at)
            return tirx.BufferStore(out, value, place)

        extents = (self.tiling.out_blocks, self.tiling.out_rows, self.tiling.out_columns, *self.gemm.dst.shape)
        return loop_nest(extents, store, known_pragma(pragma))
