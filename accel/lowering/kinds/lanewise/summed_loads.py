"""Schedule of a sum that loads make: operands onto each other, in the order in which a store takes several blocks."""

from typing import Any

from tvm import tirx

from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.ir.affine_nest import in_loops
from accel.lowering.ir.epilogue_arithmetic import stored_value
from accel.lowering.ir.function_attributes import CONTEXTS_PRAGMA
from accel.lowering.kinds.lanewise.lanewise_schedule import known_pragma, loop_nest, scratchpad_buffer
from accel.region.elementwise import Elementwise, line_of
from accel.region.kinds import Region
from accel.region.tile_steps import LOADED, Load


def schedule_summed_loads(
    function: tirx.PrimFunc, region: Region[Elementwise], capabilities: Capabilities
) -> tirx.PrimFunc:
    """``function``, whose body becomes loads onto each other and a store.

    A tile's accumulators are its lines of columns: of a line the blocks, and of each block as many as blocks are apart,
    of which some may be unused.
    """
    shape, tiling, gemm = region.shape, region.tiling, capabilities.gemm
    rows, columns, blocks = tiling.out_rows, tiling.out_columns, tiling.out_blocks
    line, memory = line_of(columns, shape.apart), gemm.dst.memory
    place = (rows, columns // line, blocks * shape.apart, *gemm.dst.shape)  # one axis, of which TVM drops no part
    box = scratchpad_buffer("box0", place, gemm.sum_dtype, memory.scope)
    extents = (rows, columns // line, blocks, line, *gemm.dst.shape)
    *operands, out = function.params
    n, c, y, x = at = [tirx.Var(name, "int32") for name in ("n", "c", "y", "x")]

    def pixel(row: Any, group: Any, block: Any, column: Any, *inner: Any) -> list[Any]:
        return [n, c * blocks + block, y * rows + row, x * columns + group * line + column, *inner]

    def accumulator(row: Any, group: Any, block: Any, column: Any, *inner: Any) -> list[Any]:
        return [row, group, block * shape.apart + column, *inner]

    def loaded(step: Load) -> tirx.Stmt:
        def load(*inside: Any) -> tirx.Stmt:
            value = operands[step.operand][tuple(pixel(*inside))].astype(gemm.sum_dtype)
            own = accumulator(*inside)
            return tirx.BufferStore(box, box[tuple(own)] + value if step.adds else value, own)

        return loop_nest(
            extents, load, known_pragma(capabilities.loading(memory.name, "int8", adds=step.adds).pragma, "a sum")
        )

    def store(*inside: Any) -> tirx.Stmt:
        value = stored_value(box[tuple(accumulator(*inside))], region.epilogue.result, region.epilogue.scaling)
        return tirx.BufferStore(out, value, pixel(*inside))

    steps = [each for each in shape.plan_tile(rows, columns, LOADED).steps if isinstance(each, Load)]
    pragma = known_pragma(capabilities.store(region.epilogue.result, region.epilogue.scaling), "a sum")
    body = [tirx.AllocBuffer(box), *map(loaded, steps), loop_nest(extents, store, pragma)]
    data = shape.inputs[0]
    tiles = (data.batch, data.blocks // blocks, tiling.out_pitch_h // rows, tiling.out_pitch_w // columns)
    inner = in_loops(at[3:], tiles[3:], tirx.SeqStmt(body), CONTEXTS_PRAGMA, tiling.result_contexts)
    return function.with_body(in_loops(at[:3], tiles[:3], inner))
