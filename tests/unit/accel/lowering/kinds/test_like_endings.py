"""Layers that differ in scales alone have the same tilings, if nothing that they cost depends on a scale."""

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Layer
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.kinds.layers.like_endings import like_ending
from accel.region.epilogue import Epilogue, Scaling


def likened(document: Accelerator, scaling: Scaling) -> Epilogue:
    return like_ending(Epilogue((), start="bias", scaling=scaling), Capabilities.of(Target(document)))


def test_scales_are_alike_and_bounds_are_not():
    # catches tilings that are looked for again for each scale, and those of a ReLU taken for what has none
    document = load_accelerator("gemmini")
    one, other, clipped = (
        likened(document, Scaling(scale, low, 127)) for scale, low in ((0.01, -128), (0.02, -128), (0.01, 0))
    )
    assert one == other != clipped


def test_scales_with_a_cost_are_not_alike():
    # catches a price that is kept for another scale than its own
    document = load_accelerator("gemmini")
    layer = next(each for each in document.instructions if isinstance(each, Layer))
    scale = next(name for name in layer.numbers if document.field(layer, name).type == "float32")
    dear = layer.model_copy(update={"cycles": f"{layer.cycles} + {scale}"})
    instructions = tuple(dear if each is layer else each for each in document.instructions)
    scaling = Scaling(0.01, -128, 127)
    assert likened(document.model_copy(update={"instructions": instructions}), scaling).scaling == scaling
