"""The shapes that pack, planning and scheduling share, counted in blocks of the accelerator's tile."""

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

EpilogueOp = Literal[
    "add", "max", "min", "multiply", "shift_right", "add_tensor", "multiply_tensor", "add_product", "add_operand"
]
TENSOR_OPS: tuple[EpilogueOp, ...] = ("add_tensor", "multiply_tensor")  # whose operand is a tensor, one value a channel
SUMS: tuple[EpilogueOp, ...] = ("add_product", "add_operand")  # those that are contractions
Steps = tuple[tuple[EpilogueOp, int], ...]
Start = Literal["zero", "bias"]
INT8 = (-128, 127)
"""What int8 holds."""
Patches = Literal["rows", "channels"]


@dataclass(frozen=True)
class Packed:
    """A packed activation ``[batch, blocks, pitch_h, pitch_w, *tile]``; the document orders the tile's two axes.

    ``height`` and ``width`` are the rows and columns that mean something; the pitches may be larger, as the
    producer's tiles need not divide its height and width.
    """

    batch: int
    blocks: int
    height: int
    width: int
    pitch_h: int
    pitch_w: int


@dataclass(frozen=True)
class Window:
    """How a convolution over [N, C, H, W] walks its data; ``padding`` is top, left, bottom, right."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]


@dataclass(frozen=True)
class Convolution:
    """A two-dimensional convolution over packed operands; a dense layer has height 1 and its rows as width.

    Output block i sums the ``data.blocks / groups`` blocks of data of its group, of ``out_blocks / groups`` blocks.
    ``uniform``: one tile of weights, the identity, is that of every block and tap. ``addend``: data of the result's own
    shape, which the epilogue adds.
    ``padding`` is what the loads add; ``host_padding`` (top, left, bottom, right) is already in ``data``. Where
    ``unfolded`` is set it stands for the convolution with that window, whose patches the host makes the ``rows`` of a
    matrix or the ``channels`` of an image, as ``patches`` says.
    """

    data: Packed
    out_blocks: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]  # top, left, bottom, right
    out_height: int
    out_width: int
    host_padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    unfolded: Window | None = None
    patches: Patches = "rows"
    groups: int = 1
    uniform: bool = False
    addend: Packed | None = None

    @property
    def of_rows(self) -> bool:
        """Whether its result is a matrix whose rows are the pixels of an image."""
        return self.unfolded is not None and self.patches == "rows"

    @property
    def reduced_blocks(self) -> int:
        """Blocks of data that an output block sums."""
        return self.data.blocks // self.groups

    @property
    def group_blocks(self) -> int:
        """Output blocks of a group."""
        return self.out_blocks // self.groups


@dataclass(frozen=True)
class Addition:
    """``a * m + b * n`` of two packed operands of one logical shape, by the int8 weights of ``levels``.

    They are (m, n), or the upper and the lower parts of those: between the levels the sum is shifted left by 7.
    """

    operands: tuple[Packed, Packed]
    levels: tuple[tuple[int, int], ...]

    @property
    def pixels(self) -> tuple[int, int]:
        """Height and width of the result, elements."""
        return self.operands[0].height, self.operands[0].width


Relu = Literal["", "sums", "floats", "product", "rounded", "clipped", "narrowed"]
"""Where a store does ``max(..., 0)`` beside its clip, if anywhere: of what it reads, or of what it made of that."""


@dataclass(frozen=True)
class Scaling:
    """``clip(rint(f32(x) * scale), low, high)``, half to even, as int8."""

    scale: float
    low: int
    high: int
    relu: Relu = ""


@dataclass(frozen=True)
class Shifting:
    """``clip((x * factor + half) >> shift, low, high)`` as int8.

    The half is ``1 << shift - 1`` if it ``rounds``, else 0.
    """

    shift: int
    low: int
    high: int
    rounds: bool
    factor: int = 1
    relu: Relu = ""


@dataclass(frozen=True)
class Epilogue:
    """How the accumulators begin, and what follows: elementwise int32 operations, then the store.

    They begin at zero, or as the bias that a load puts there. ``steps`` are (operation, immediate). ``add_tensor`` adds
    the bias, ``multiply_tensor`` multiplies by another tensor, and both have immediate 0. ``add_product`` adds the bias
    too, by a contraction of a constant tile with weights that make the bias of it; ``add_operand`` adds a tensor's int8
    times the immediate, by a contraction with a scaled identity. The store moves them as they are (``int32``), narrows
    them to their low bits (``int8``), or scales or shifts them if ``scaling`` is set. ``planes`` is 4 where the whole
    accumulator leaves as four int8 planes, low byte first. ``groups`` says how many of the steps each instruction does,
    one after the other; without it each does one.
    """

    steps: Steps
    planes: int = 1
    start: Start = "zero"
    result: Literal["int8", "int32"] = "int8"
    scaling: Scaling | Shifting | None = None
    groups: tuple[int, ...] = ()

    @property
    def grouped(self) -> tuple[Steps, ...]:
        """The steps of each instruction."""
        ends = accumulate(self.groups or (1,) * len(self.steps), initial=0)
        return tuple(self.steps[begin:end] for begin, end in pairwise(ends))

    @property
    def wide(self) -> bool:
        """Whether whole accumulators leave, not int8."""
        return self.result == "int32" or self.planes > 1

    @property
    def has_bias(self) -> bool:
        """Whether the epilogue adds a bias tensor."""
        return any(name == "add_tensor" for name, _ in self.steps)

    @property
    def adds_bias(self) -> bool:
        """Whether the bias is in the accumulators when they leave."""
        return self.has_bias or self.has_product or self.start == "bias"

    @property
    def has_product(self) -> bool:
        """Whether a contraction of constants adds the bias."""
        return any(name == "add_product" for name, _ in self.steps)

    @property
    def adds_operand(self) -> bool:
        """Whether a contraction adds a tensor as large as the result."""
        return any(name == "add_operand" for name, _ in self.steps)

    @property
    def sums(self) -> int:
        """Steps that are contractions."""
        return sum(name in SUMS for name, _ in self.steps)

    @property
    def tensors(self) -> int:
        """Tensors of one value a channel that the steps read."""
        return sum(name in TENSOR_OPS for name, _ in self.steps)

    @property
    def passes(self) -> int:
        """Elementwise passes over the accumulators, shifts between the planes included."""
        return len(self.grouped) - self.sums + self.planes - 1


@dataclass(frozen=True)
class Tiling:
    """How a region is cut so that its tiles fit the scratchpads.

    Extents are blocks (``out_blocks``, ``in_blocks``) and elements (the rest). ``order`` says which operand
    stays while the others pass: none (``stream``), the weights of one group of output channels
    (``weights``), or the data of one output tile (``data``). A tile has output blocks of one group, or those of several
    groups of one block each. Contexts are the copies of each buffer: 2 let the
    next tile load while this one computes.
    """

    out_blocks: int
    out_rows: int
    out_columns: int
    in_blocks: int
    kernel_rows: int
    kernel_columns: int
    order: Literal["stream", "weights", "data"]
    operand_contexts: int
    result_contexts: int
    out_pitch_h: int
    out_pitch_w: int
