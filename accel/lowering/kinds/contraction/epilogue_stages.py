"""Tensor expressions of sums of products: how they begin, and the epilogue that follows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvm import ir, s_tir, te, tirx
from tvm_ffi import structural_mutate

from accel.accelerator.contraction import Contraction, Tile
from accel.lowering.ir.epilogue_arithmetic import apply_steps, stored_value
from accel.lowering.kinds.contraction.image_parts import LOWEST, ImageParts
from accel.lowering.layout.tiled_layout import packed_shape
from accel.region.epilogue import SUMS, TENSOR_OPS, ChannelOperand, Epilogue, EpilogueOp, Steps
from accel.region.shapes import Convolution, PackedActivation
from accel.region.tilings import Tiling

Element = Callable[..., Any]

ACCUMULATE = "accumulate"


class ConstantLine(NamedTuple):
    """Equal elements of data, so many ``rows`` and ``columns`` of a tile, which products walk by ``step``.

    The constants that make a bias are one element for all pixels. Where another step of the data costs time there is
    one for each instead, and the products of the bias walk them as those of the sum walk the data.
    """

    rows: int
    columns: int
    step: int

    def place(self, y: tirx.Var, x: tirx.Var) -> tirx.Expr:
        """The element of a pixel of the result."""
        row = 0 if self.rows == 1 else tirx.floormod(y, self.rows) * self.columns
        column = 0 if self.columns == 1 else tirx.floormod(x, self.columns)
        return (row + column) * self.step


def line_shape(line: "ConstantLine | None") -> tuple[int, ...]:
    """The axis of the elements of a line; none where one element is enough."""
    return () if line is None else (line.rows * line.columns * line.step,)


def constant_line(tiling: Tiling, conv: Convolution | None, gemm: Contraction) -> ConstantLine | None:
    """The constants of a tile of ``conv``, None: of pixels as they are; None where one element is enough."""
    if not gemm.line:
        return None
    strides, dilation = (conv.strides, conv.dilation[1]) if conv is not None else ((1, 1), 1)
    if tiling.out_columns == 1:
        wide = (tiling.kernel_columns - 1) * dilation + 1
        return ConstantLine(tiling.out_rows, 1, strides[0] * wide)
    rows = 1 if tiling.out_columns % gemm.line == 0 else tiling.out_rows
    return ConstantLine(rows, tiling.out_columns, strides[1])


_TENSORS: dict[EpilogueOp, str] = {"add_tensor": "bias", "multiply_tensor": "multiplier"}


@dataclass
class _Stages:
    """The stages so far: the last of them, the parameters that they take, and the sums that go on from others."""

    last: te.Tensor
    parameters: list[te.Tensor] = field(default_factory=list)
    starts: dict[str, str] = field(default_factory=dict)

    def placeholder(self, name: str, shape: Sequence[Any], dtype: str) -> te.Tensor:
        """A further parameter."""
        made = te.placeholder(tuple(shape), dtype, name=name)
        self.parameters.append(made)
        return made


@dataclass(frozen=True)
class EpilogueWay:
    """What an epilogue takes beside sums, and what it leaves of them.

    Attributes:
        addend: data of the result's own blocks and pixels, which a contraction adds.
        line: the constants of a contraction that adds a bias, where one element is not enough.
        parts: of an image, of which the largest of windows leave.
    """

    addend: PackedActivation | None = None
    line: ConstantLine | None = None
    parts: ImageParts | None = None


def stage_name(number: int, steps: Steps) -> str:
    """The block of what one instruction does of an epilogue."""
    return f"epilogue{number}_{steps[0][0]}"


def operand_name(stage: str) -> str:
    """The parameter of the data that the sums of a stage read."""
    return f"{stage}_data"


def placeholder(name: str, packed: PackedActivation, tile: Tile) -> te.Tensor:
    """A packed activation as a parameter."""
    return te.placeholder(packed_shape(packed, tile), tile.memory.dtype, name=name)


def padded_data(data: te.Tensor, conv: Convolution, rows: int, columns: int) -> te.Tensor:
    """Returns the data as far as the tiles reach, zero outside; the data itself where nothing is outside."""
    top, left = conv.padding[:2]
    height = (rows - 1) * conv.strides[0] + (conv.kernel[0] - 1) * conv.dilation[0] + 1
    width = (columns - 1) * conv.strides[1] + (conv.kernel[1] - 1) * conv.dilation[1] + 1
    inside_h = top == 0 and height <= conv.data.height
    inside_w = left == 0 and width <= conv.data.width
    if inside_h and inside_w:
        return data
    shape = (data.shape[0], data.shape[1], height, width, data.shape[4], data.shape[5])

    def element(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, b: tirx.Var, i: tirx.Var) -> tirx.Expr:
        bounds = [] if inside_h else [y >= top, y < top + conv.data.height]
        bounds += [] if inside_w else [x >= left, x < left + conv.data.width]
        value = data[n, c, y - top, x - left, b, i]
        return te.if_then_else(te.all(*bounds), value, tirx.const(0, str(data.dtype)))

    return te.compute(shape, element, name="padded")


def accumulated(
    outer: tuple[int, ...], product: Element, axes: list[Any], epilogue: Epilogue, gemm: Contraction
) -> tuple[te.Tensor, list[te.Tensor]]:
    """The sum of the products over ``axes``, beginning at zero or as the bias, which then is an argument."""
    shape = (*outer, *gemm.dst.shape)
    bias = (
        te.placeholder((outer[1], *gemm.dst.shape), gemm.sum_dtype, name="bias") if epilogue.start == "bias" else None
    )

    def element(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, first: tirx.Var, second: tirx.Var) -> tirx.Expr:
        indices = dict(zip(gemm.dst.axes, (first, second), strict=True))
        value = product(n, c, y, x, indices["m"], indices["n"])
        return te.sum(value, axis=axes)

    return te.compute(shape, element, name=ACCUMULATE), [] if bias is None else [bias]


def continued(begin: te.Tensor, product: Element, axes: list[Any], gemm: Contraction, name: str) -> te.Tensor:
    """A sum of the products that shall begin as ``begin``; TE knows of it, and puts zero there."""

    def element(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, first: tirx.Var, second: tirx.Var) -> tirx.Expr:
        indices = dict(zip(gemm.dst.axes, (first, second), strict=True))
        value = product(n, c, y, x, indices["m"], indices["n"])
        return te.sum(value, axis=axes, init=begin[n, c, y, x, first, second])

    return te.compute(begin.shape, element, name=name)


def with_epilogue(
    operands: list[te.Tensor],
    accumulated: te.Tensor,
    start: list[te.Tensor],
    epilogue: Epilogue,
    gemm: Contraction,
    way: EpilogueWay,
    starts: Mapping[str, str] | None = None,
) -> tirx.PrimFunc:
    """The PrimFunc of an accumulation and what follows it.

    Its parameters are ``operands``, the tensor that the accumulators begin as (``start``, if any), those of the steps,
    then one result a plane. ``starts`` are the blocks of sums before the last, and of the stages that these go on from.
    What one instruction does is a stage of its own, so that it can carry a pragma. Of its steps

    - ``add_tensor`` takes the bias and ``multiply_tensor`` the multipliers, ``[out_blocks, *tile of dst]``;
    - ``add_product`` takes one tile of data, or one for each of a line, and a tile of weights a block:
      ``[out_blocks, *tile of weights]``;
    - ``add_operand`` takes data of the result's own blocks and pixels, and one tile of weights.

    A store that multiplies channels takes their factors last, int32 ``[out_blocks, channels of a block]``, then their
    shifts and bias, if it reads these. Where the largest of windows leave, and parts of the image have a border, the
    last parameter is what that is loaded from.
    """
    stages = _Stages(accumulated, starts=dict(starts or {}))
    if start:
        stages.starts[ACCUMULATE] = str(start[0].name)
    for number, steps in enumerate(epilogue.grouped):
        stages.last = _stage(stages, stage_name(number, steps), steps, gemm, way)
    channels = {
        role: stages.placeholder(role, (accumulated.shape[1], gemm.out_channels), "int32")
        for role, _ in (() if epilogue.factors is None else epilogue.factors.operands)
    }
    results = []
    for plane in range(epilogue.planes):
        if plane:
            stages.last = elementwise_stage(stages.last, (("shift_right", 8),), f"plane{plane}_shift_right")
        results.append(_result(stages, epilogue, channels, gemm, way.parts, f"result{plane}"))
    function = te.create_prim_func([*operands, *start, *stages.parameters, *results])
    return _begun(function, stages.starts)


def _stage(stages: _Stages, label: str, steps: Steps, gemm: Contraction, way: EpilogueWay) -> te.Tensor:
    before, shape = stages.last, stages.last.shape
    tensor = next((name for name, _ in steps if name in TENSOR_OPS), None)
    if tensor is not None:
        vector = stages.placeholder(_TENSORS[tensor], (shape[1], shape[4], shape[5]), gemm.sum_dtype)
        return elementwise_stage(before, steps, label, vector)
    if steps[0][0] not in SUMS:
        return elementwise_stage(before, steps, label)
    stages.starts[label] = str(before.name)
    if steps[0][0] == "add_operand":
        return _summed_on(stages, label, way.addend, gemm, None)
    return _summed_on(stages, label, None, gemm, way.line)


def _summed_on(
    stages: _Stages, label: str, addend: PackedActivation | None, gemm: Contraction, line: ConstantLine | None
) -> te.Tensor:
    """Accumulators plus products with more data: ``addend``, or, where there is none, one tile or a ``line`` of it."""
    before, shape = stages.last, stages.last.shape
    tiles = () if addend is None else packed_shape(addend, gemm.data)[:4]
    lines = () if addend is not None or line is None else line_shape(line)
    data = stages.placeholder(operand_name(label), (*tiles, *lines, *gemm.data.shape), gemm.data.memory.dtype)
    blocks = (shape[1],) if addend is None else ()
    weights = stages.placeholder(f"{label}_weights", (*blocks, *gemm.weights.shape), gemm.weights.memory.dtype)
    lane = te.reduce_axis((0, gemm.in_channels), f"{label}_lane")

    def sums(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, first: tirx.Var, second: tirx.Var) -> tirx.Expr:
        place = dict(zip(gemm.dst.axes, (first, second), strict=True))
        which = (n, c, y, x) if tiles else () if line is None else (line.place(y, x),)
        element = data[*which, *inner(gemm.data, m=place["m"], k=lane)]
        weight = weights[*((c,) if blocks else ()), *inner(gemm.weights, n=place["n"], k=lane)]
        product = element.astype(gemm.sum_dtype) * weight.astype(gemm.sum_dtype)
        return te.sum(product, axis=lane, init=before[n, c, y, x, first, second])

    return te.compute(shape, sums, name=label)


def inner(tile: Tile, **indices: tirx.Expr) -> tuple[tirx.Expr, ...]:
    """The indices of a tile's two axes in the order in which they lie."""
    return tuple(indices[axis] for axis in tile.axes)


def elementwise_stage(before: te.Tensor, steps: Steps, label: str, vector: te.Tensor | None = None) -> te.Tensor:
    """The block ``label``: operations on every accumulator, with immediates or with ``vector`` [blocks, *tile]."""
    tensors = any(name in TENSOR_OPS for name, _ in steps)

    def element(n: tirx.Var, c: tirx.Var, y: tirx.Var, x: tirx.Var, b: tirx.Var, o: tirx.Var) -> tirx.Expr:
        other = vector[c, b, o] if tensors and vector is not None else None
        return apply_steps(before(n, c, y, x, b, o), steps, other)

    return te.compute(before.shape, element, name=label)


def _result(
    stages: _Stages,
    epilogue: Epilogue,
    channels: Mapping[ChannelOperand, te.Tensor],
    gemm: Contraction,
    parts: ImageParts | None,
    name: str,
) -> te.Tensor:
    """What is stored of the last stage: each of its elements, or the largest of windows."""
    last = stages.last

    def stored(value: tirx.Expr, indices: Sequence[tirx.Expr]) -> tirx.Expr:
        channel = dict(zip(gemm.dst.axes, indices[4:], strict=True))["n"]
        read = {role: tensor(indices[1], channel) for role, tensor in channels.items()}
        return stored_value(value, epilogue.result, epilogue.scaling, read)

    if parts is None:
        return te.compute(last.shape, lambda *indices: stored(last(*indices), indices), name=name)
    lowest = stages.placeholder(LOWEST, gemm.dst.shape, gemm.sum_dtype) if parts.bordered else None
    shape = (*last.shape[:2], parts.result.out_pitch_h, parts.result.out_pitch_w, *last.shape[4:])
    return te.compute(shape, parts.largest(last, lowest, stored), name=name)


def _begun(function: tirx.PrimFunc, starts: dict[str, str]) -> tirx.PrimFunc:
    """The function whose sums begin as other buffers do; those of ``te.create_prim_func`` begin at zero.

    ``starts`` has the name of a buffer for that of each such sum: accumulators that are summed on, or a parameter
    ``[out_blocks, *tile]``.
    """
    buffers = {str(buffer.name): buffer for buffer in (*function.params, *function.body.block.alloc_buffers)}

    def begun(block: s_tir.SBlock, start: Any) -> s_tir.SBlock:
        indices = list(block.init.indices)
        first = tirx.BufferLoad(start, indices if len(start.shape) == len(indices) else [indices[1], *indices[4:]])
        store = tirx.BufferStore(block.init.buffer, first, indices)
        region = tirx.BufferRegion(start, [ir.Range.from_min_extent(index, 1) for index in first.indices])
        return s_tir.SBlock(
            block.iter_vars, [*block.reads, region], block.writes, block.name_hint, block.body, store,
            block.alloc_buffers, block.match_buffers, block.annotations,
        )  # fmt: skip

    def sums(block: s_tir.SBlock, mutator: Any) -> s_tir.SBlock:
        start = starts.get(str(block.name_hint)) if block.init is not None else None
        return mutator.default_mutate(block) if start is None else begun(block, buffers[start])

    return function.with_body(structural_mutate(function.body, (s_tir.SBlock, sums))) if starts else function
