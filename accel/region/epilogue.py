"""Epilogues: how accumulators begin, which steps follow, how the store narrows them; and a bias added by a contraction.

A contraction does an element a cycle, where an instruction on two tensors of accumulators reads twice: VTA's ALU takes
two cycles an element for it.
"""

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from accel.accelerator.contraction import Contraction

EpilogueOp = Literal[
    "add", "max", "min", "multiply", "shift_right", "add_tensor", "multiply_tensor", "add_product", "add_operand",
    "widen", "narrow",
]  # fmt: skip


TENSOR_OPS: tuple[EpilogueOp, ...] = ("add_tensor", "multiply_tensor")  # whose operand is a tensor, one value a channel


SUMS: tuple[EpilogueOp, ...] = ("add_product", "add_operand")  # those that are contractions


Steps = tuple[tuple[EpilogueOp, int], ...]


Start = Literal["zero", "bias"]


INT8 = (-128, 127)


Relu = Literal["", "sums", "floats", "product", "rounded", "clipped", "narrowed"]


ChannelOperand = Literal["factor", "shift", "bias"]
"""What a store may read of each channel."""


@dataclass(frozen=True)
class IntegerGelu:
    """I-BERT's GELU of an int32, in units of a constant: ``x * (sign(x) * (min(abs(x) + qb, 0)**2 + qc) + qc)``.

    Both constants are negative. Beyond int32 it wraps.
    """

    qb: int
    qc: int


@dataclass(frozen=True)
class Scaling:
    """``clip(rint(f32(x) * scale), low, high)``, half to even, as int8; of a function of x where there is ``gelu``."""

    scale: float
    low: int
    high: int
    relu: Relu = ""
    gelu: Annotated[IntegerGelu | None, Field(exclude_if=lambda gelu: gelu is None)] = None  # few stages' texts have it


@dataclass(frozen=True)
class ChannelFactors:
    """Where a store reads an int32 multiplier of each channel: a memory, of which an element has those of a block.

    ``shifts`` is where it reads by how much to shift the products, and ``bias`` where what it adds to the sums before;
    empty where it reads none.
    """

    memory: str
    shifts: str = ""
    bias: str = ""

    @property
    def operands(self) -> tuple[tuple[ChannelOperand, str], ...]:
        """What it reads of each channel, and from which memory."""
        all_of_them: tuple[tuple[ChannelOperand, str], ...] = (
            ("factor", self.memory),
            ("shift", self.shifts),
            ("bias", self.bias),
        )
        return tuple((role, memory) for role, memory in all_of_them if memory)


@dataclass(frozen=True)
class Shifting:
    """``clip((x * factor + half) >> shift, low, high)`` as int8.

    The half is ``1 << shift - 1`` if it ``rounds``, else 0. The product has so many bits, ``product``, if it is wider
    than the sums; then what is clipped is cast to their type before, if it ``narrows``. The factor is that of each
    channel, which the store reads, if ``channels`` is set; so may the shift be, and a bias that is added to x first.
    """

    shift: int
    low: int
    high: int
    rounds: bool
    factor: int = 1
    relu: Relu = ""
    product: int = 0
    narrows: bool = False
    channels: ChannelFactors | None = None


@dataclass(frozen=True)
class Epilogue:
    """How the accumulators begin, and what follows: elementwise int32 operations, then the store.

    They begin at zero, or as the bias that a load puts there. ``steps`` are (operation, immediate). ``add_tensor`` adds
    the bias, ``multiply_tensor`` multiplies by another tensor, and both have immediate 0. ``add_product`` adds the bias
    too, by a contraction of a constant tile with weights that make the bias of it; ``add_operand`` adds a tensor's int8
    times the immediate, by a contraction with a scaled identity. The store moves them as they are (``int32``), narrows
    them to their low bits (``int8``), or scales or shifts them if ``scaling`` is set. ``planes`` is 4 where the whole
    accumulator leaves as four int8 planes, low byte first. ``widen`` casts to integers of so many bits, in which what
    follows is computed up to ``narrow``, which casts back; one instruction does both and what lies between. ``groups``
    says how many of the steps each instruction does, one after the other; without it each does one.
    """

    steps: Steps
    planes: int = 1
    start: Start = "zero"
    result: Literal["int8", "int32"] = "int8"
    scaling: Scaling | Shifting | None = None
    groups: tuple[int, ...] = ()

    @property
    def unnumbered(self) -> "Epilogue":
        """The epilogue without the numbers of its steps and its scaling, which no price depends on.

        What the store reads beside stays, as it takes room on the chip.
        """
        reads = None if self.factors is None else Shifting(0, 0, 0, rounds=False, channels=self.factors)
        return replace(self, steps=tuple((name, 0) for name, _ in self.steps), scaling=reads)

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
    def applies_function(self) -> bool:
        """Whether the store computes a function of accumulators, which none of its operands are behind."""
        return isinstance(self.scaling, Scaling) and self.scaling.gelu is not None

    @property
    def adds_bias(self) -> bool:
        """Whether the bias is in the accumulators when they leave."""
        return self.has_bias or self.has_product or self.start == "bias" or self.stores_bias

    @property
    def stores_bias(self) -> bool:
        """Whether the store adds a bias of each channel."""
        return self.factors is not None and bool(self.factors.bias)

    @property
    def has_product(self) -> bool:
        """Whether a contraction of constants adds a bias."""
        return self.products > 0

    @property
    def products(self) -> int:
        """Contractions of constants: of the bias, and of what an addition behind the sums rounds by."""
        return sum(name == "add_product" for name, _ in self.steps)

    @property
    def parts(self) -> tuple["Epilogue", Steps]:
        """The epilogue up to the addition of a tensor, and the steps behind that; all of it, and none, without one."""
        at = next((at for at, (name, _) in enumerate(self.steps) if name == "add_operand"), len(self.steps))
        return replace(self, steps=self.steps[:at], groups=()), self.steps[at + 1 :]

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
    def factors(self) -> ChannelFactors | None:
        """Where the store reads a multiplier of each channel; None if it reads none."""
        return self.scaling.channels if isinstance(self.scaling, Shifting) else None

    @property
    def vectors(self) -> int:
        """Tensors of one value a channel that the steps and the store read."""
        return self.tensors + (0 if self.factors is None else len(self.factors.operands))

    @property
    def passes(self) -> int:
        """Elementwise passes over the accumulators, shifts between the planes included."""
        return len(self.grouped) - self.sums + self.planes - 1


_INT8_MAX = 127  # of int8, either way


def largest_bias_by_product(gemm: Contraction) -> int:
    """The largest magnitude of a bias that one contraction makes; 0 where it makes none."""
    return _INT8_MAX * _INT8_MAX * (gemm.in_channels - 1) if gemm.in_channels > 1 else 0


def with_bias_by_product(epilogue: Epilogue, gemm: Contraction, largest: int) -> Epilogue | None:
    """The epilogue with its bias added by a contraction, for biases of at most ``largest``; None if it cannot be."""
    if largest > largest_bias_by_product(gemm):
        return None
    product: tuple[EpilogueOp, int] = ("add_product", 0)
    if epilogue.start == "bias" and (gemm.overwrites or gemm.zero is not None):
        groups = (1, *epilogue.groups) if epilogue.groups else ()
        return replace(epilogue, start="zero", steps=(product, *epilogue.steps), groups=groups)
    if (("add_tensor", 0),) not in epilogue.grouped:
        return None
    return replace(epilogue, steps=tuple(product if step == ("add_tensor", 0) else step for step in epilogue.steps))


def bias_data_tile(gemm: Contraction) -> npt.NDArray[np.int8 | np.uint8]:
    """The tile of data: 127 in every channel but the last, which has 1; of the data memory's type."""
    channels = np.full(gemm.in_channels, _INT8_MAX, gemm.data.memory.dtype)
    channels[-1] = 1
    across = channels if gemm.data.axes[1] == "k" else channels[:, np.newaxis]
    return np.ascontiguousarray(np.broadcast_to(across, gemm.data.shape))


def bias_weight_tiles(bias: npt.NDArray[np.int32], blocks: int, gemm: Contraction) -> npt.NDArray[np.int8]:
    """The tiles ``[blocks, *tile of weights]`` whose product with :func:`constant_tile` is ``bias`` (channels,).

    A bias is 127 q + r; the last channel makes r, and the others share q.
    """
    padded = np.zeros(blocks * gemm.out_channels, np.int64)
    padded[: bias.size] = bias
    quotient = np.rint(padded / _INT8_MAX).astype(np.int64)
    first = np.arange(gemm.in_channels - 1) * _INT8_MAX
    shares = np.clip(np.abs(quotient)[:, np.newaxis] - first, 0, _INT8_MAX) * np.sign(quotient)[:, np.newaxis]
    lanes = np.concatenate([shares, (padded - _INT8_MAX * quotient)[:, np.newaxis]], axis=1)
    tiles = lanes.reshape(blocks, gemm.out_channels, gemm.in_channels).astype(np.int8)
    return np.ascontiguousarray(tiles if gemm.weights.axes == ("n", "k") else tiles.transpose(0, 2, 1))
