"""The kinds of regions that there are; a further one is named here, and its shape in ``accel/region/kinds.py``."""

from collections.abc import Sequence
from typing import Any

from accel.lowering.kinds.addition_kind import AdditionKind
from accel.lowering.kinds.convolution_kind import ConvolutionKind
from accel.lowering.kinds.elementwise_kind import ElementwiseKind
from accel.lowering.kinds.layer_norm_kind import LayerNormKind
from accel.lowering.kinds.pooling_kind import PoolingKind
from accel.lowering.kinds.region_kind import LaunchKind, PlanRequest, Refusal, RegionKind
from accel.lowering.kinds.softmax_kind import SoftmaxKind
from accel.lowering.kinds.vector_kind import VectorKind
from accel.region.kinds import AnyRegion, Region, TilingOption, VectorRegion
from accel.region.shapes import RegionShape

KINDS: tuple[RegionKind[Any], ...] = (
    ConvolutionKind(),
    AdditionKind(),
    PoolingKind(),
    ElementwiseKind(),
    SoftmaxKind(),
    LayerNormKind(),
)
"""In the order in which they are asked to plan a composite."""

OPERATORS = frozenset[str]().union(*(kind.operators for kind in KINDS))
"""The composites that an accelerator may run."""

_BY_SHAPE: dict[type[RegionShape], RegionKind[Any]] = {kind.shape: kind for kind in KINDS}


_VECTOR = VectorKind()


def launch_kind(region: AnyRegion) -> LaunchKind[Any]:
    """What compiles and describes a region."""
    return _VECTOR if isinstance(region, VectorRegion) else kind_of(region)


def kind_of(region: Region) -> RegionKind[Any]:
    """The kind of a region that is a composite."""
    return _BY_SHAPE[type(region.shape)]


def plan_region(request: PlanRequest) -> Sequence[TilingOption] | str:
    """The ways to run a composite by the first kind that can, the cheapest first; or why none can."""
    refused: Refusal | None = None
    for kind in KINDS:
        if request.composite.op in kind.operators:
            found = kind.plan(request)
            if not isinstance(found, Refusal):
                return found
            refused = found if refused is None or refused.defers else refused
    assert refused is not None, request.composite.op
    return refused.reason
