"""What a composite of the integer graph computes, as data: the frontend writes it, the planner reads it."""

from dataclasses import dataclass

from pydantic import TypeAdapter

from accel.region.elementwise import Combination
from accel.region.epilogue import Scaling, Steps
from accel.region.row_layer_norm import IntegerLayerNorm
from accel.region.row_softmax import IntegerSoftmax
from accel.region.shapes import SlidingWindow

COMPOSITE = "cyclops.composite"
"""The attribute of a composite's function that holds this, as JSON."""


@dataclass(frozen=True, kw_only=True)
class CompositeAttributes:
    """What its operator and the types of its parameters and of its result do not say of a composite.

    Of a convolution: its ``window``, its ``groups`` of channels, and whether it is an ``average``, with weights that
    are all one; of a pooling its ``window``. Of an addition or elementwise work: the ``weights`` by which operands are
    multiplied, and the ``combination`` of the products. ``has_bias``: a number a channel is added to the sums;
    ``bias_rounds``: it is none of the model's, and only rounds. Then ``steps`` follow in order, on int32, and
    ``scaling`` if there is one; ``narrow``: they end in int8. Of a softmax of rows its integers, ``softmax``,
    and of a layer norm its, ``norm``.
    """

    window: SlidingWindow | None = None
    groups: int = 1
    average: bool = False
    weights: tuple[int, ...] = ()
    combination: Combination = "sum"
    has_bias: bool = False
    bias_rounds: bool = False
    steps: Steps = ()
    scaling: Scaling | None = None
    narrow: bool = False
    softmax: IntegerSoftmax | None = None
    norm: IntegerLayerNorm | None = None


_ATTRIBUTES = TypeAdapter(CompositeAttributes)


def dump_attributes(attributes: CompositeAttributes) -> str:
    """The attributes as JSON, but for those that are as they mostly are."""
    return _ATTRIBUTES.dump_json(attributes, exclude_defaults=True).decode()


def load_attributes(text: str) -> CompositeAttributes:
    """The inverse of :func:`dump_attributes`."""
    return _ATTRIBUTES.validate_json(text)
