"""The protocol of a kind of region: all that the compiler asks of one, from a composite of the graph to the report."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from tvm import ir, relax, tirx
from typing_extensions import TypeVar

from accel.accelerator.contraction import Contraction
from accel.accelerator.instructions import Compute, Copy, Layer, Operation
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion
from accel.lowering.analysis.dataflow import CompositeUse
from accel.lowering.analysis.image_padding import Padding
from accel.lowering.layout.operand_layout import OperandLayout
from accel.region.kinds import Region, Role, Shape_co, TilingOption
from accel.region.shapes import Convolution, PackedActivation, RegionShape
from accel.region.tilings import TilingCost

Shape = TypeVar("Shape", bound=RegionShape)
Launched_contra = TypeVar("Launched_contra", contravariant=True)


@dataclass(frozen=True)
class PlanRequest:
    """A composite that shall run on an accelerator, and what prices its tilings.

    ``lowest`` is the least value that its first operand can have.
    """

    composite: CompositeRegion
    use: CompositeUse
    lowest: int
    capabilities: Capabilities
    cost: TilingCost


@dataclass(frozen=True)
class Refusal:
    """Why a kind of region cannot be a composite; ``defers``: what another kind says of it says more."""

    reason: str
    defers: bool = False


@dataclass(frozen=True)
class JoinedCall:
    """The call of a contraction whose result is operand ``place`` of the addition that takes it in."""

    place: int
    call: ir.Call
    composite: CompositeRegion


@dataclass(frozen=True)
class PackRequest(Generic[Shape_co]):
    """The call of a composite, its region as planned, and the contraction that it takes in, if any."""

    call: ir.Call
    composite: CompositeRegion
    region: Region[Shape_co]
    joined: JoinedCall | None = None


@dataclass(frozen=True)
class PackedRegion(Generic[Shape_co]):
    """A region over operands as they lie, and the arguments of its PrimFunc but for the results.

    ``composite`` is all that it computes. Its result stands for a tensor of ``shape``; ``image`` is that of the image
    whose pixels are the rows of that, ``stack`` that of the matrices that lie in it side by side, if it is one.
    """

    region: Region[Shape_co]
    arguments: list[relax.Expr]
    composite: CompositeRegion
    shape: tuple[int, ...]
    image: tuple[int, ...] | None = None
    stack: tuple[int, ...] | None = None


class PackedOperands(Protocol):
    """The values of the graph that is being packed, laid out as regions read them.

    Each method returns the tensor and how it lies: as another region made it if it can be read so, else laid out anew.
    """

    @property
    def gemm(self) -> Contraction:
        """The contraction in whose tiles the values lie."""

    def data(self, var: relax.Expr, conv: Convolution) -> tuple[relax.Expr, Convolution]:
        """The data of a convolution, padded and unfolded as it says, and the convolution over them as they lie.

        Where they have the padding around them in DRAM it is none of the host's.
        """

    def lanes(self, var: relax.Expr, wanted: OperandLayout) -> tuple[relax.Expr, PackedActivation]:
        """An operand of lane-wise work."""

    def laid_out(self, var: relax.Expr, layout: Callable[[relax.Expr], relax.Expr]) -> relax.Expr:
        """A value as the model means it, which the host lays out."""


@dataclass(frozen=True)
class UsedOperation:
    """An operation of the accelerator that a launch uses, and what for."""

    role: Role
    instruction: Copy | Compute | Layer
    operation: Operation


class LaunchKind(Protocol[Launched_contra]):
    """How regions are scheduled and reported, whatever of the graph they are made of."""

    def expression(self, region: Launched_contra, gemm: Contraction) -> tirx.PrimFunc:
        """What a region computes, as tensor expressions; its parameters are the arguments, then the results."""

    def schedule(self, function: tirx.PrimFunc, region: Launched_contra, capabilities: Capabilities) -> tirx.PrimFunc:
        """The function tiled, with its buffers in the accelerator's scopes and its nests under pragmas."""

    def instructions(self, region: Launched_contra, capabilities: Capabilities) -> Iterator[UsedOperation]:
        """What a tile uses, in its order; an operation may come more than once."""

    def host_layout(self, region: Launched_contra) -> list[str]:
        """What the host does to the operands beside laying them out in tiles, and why."""


class RegionKind(Protocol[Shape]):
    """A kind of region: how composites become regions of it, and how such regions are packed, scheduled and reported.

    ``shape`` is the type of its regions' shapes, and ``operators`` are the composites that it may run.
    """

    shape: type[Shape]
    operators: frozenset[str]

    def plan(self, request: PlanRequest) -> Sequence[TilingOption[Shape]] | Refusal:
        """The ways to run a composite, the cheapest first; or why there is none."""

    def pack(self, request: PackRequest[Shape], operands: PackedOperands) -> PackedRegion[Shape]:
        """The region over its operands as they lie, and its arguments."""

    def expression(self, region: Region[Shape], gemm: Contraction) -> tirx.PrimFunc:
        """What a region computes, as tensor expressions; its parameters are the arguments, then the results.

        Activations are indexed from their first row and column on, wherever these lie in DRAM, and results have no
        border: :func:`accel.lowering.kinds.region_images.region_function` puts both in their places.
        """

    def padding_of_data(self, region: Region[Shape]) -> Padding:
        """What must be around the first operand, as the loads do not add it."""

    def activations(self, region: Region[Shape]) -> Mapping[str, PackedActivation]:
        """The parameters that are activations, by name, and how they lie in DRAM."""

    def schedule(self, function: tirx.PrimFunc, region: Region[Shape], capabilities: Capabilities) -> tirx.PrimFunc:
        """The function tiled, with its buffers in the accelerator's scopes and its nests under pragmas."""

    def instructions(self, region: Region[Shape], capabilities: Capabilities) -> Iterator[UsedOperation]:
        """What a tile uses, in its order; an operation may come more than once."""

    def host_layout(self, region: Region[Shape]) -> list[str]:
        """What the host does to the operands beside laying them out in tiles, and why."""
