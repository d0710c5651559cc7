"""Buffers that lie each as what it is loaded from."""

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.lowering.movement.program_orders import mixed_orders_of
from accel.region.affine_view import whole
from accel.region.kinds import VectorRegion
from accel.region.vector_program import UNIT, VectorProgram, VectorTensor

AT = "[a0, a1, a2]"
PROGRAM = VectorProgram(
    extents=(128, 2, 2),
    tile=(128, 2, 2),
    tensors=(
        *(VectorTensor(name, "int8", (UNIT, 0, 1, 2)) for name in ("x", "z", "y")),
        *(VectorTensor(name, "float32", (0, 1, 2), "v") for name in ("b0", "b1")),
    ),
    results=1,
    statements=(f"b0{AT} = f32(x{AT})", f"b1{AT} = f32(z{AT})", f"b1{AT} = b0{AT} + b1{AT}", f"y{AT} = i8(b1{AT})"),
    contexts=1,
)
PIXELS = whole((1, 128, 2, 2)).permuted((0, 3, 1, 2)).view()
BLOCKS = whole((1, 128, 2, 2)).reshaped((1, 4, 32, 2, 2)).permuted((0, 1, 4, 2, 3)).view()


def test_pixels_and_blocks_are_added_as_they_lie() -> None:
    """Would catch two operands in one order, one of which is loaded in 16 pieces of 32 numbers."""
    target = Target(load_accelerator("npu"))
    (found,) = mixed_orders_of(VectorRegion(PROGRAM, (PIXELS, BLOCKS, BLOCKS)), target)
    assert found.shape.extents == (4, 32, 2, 2)
    assert {tensor.name: tensor.axes for tensor in found.shape.on_chip} == {"b0": (2, 3, 0, 1), "b1": (0, 2, 3, 1)}
    assert not list(mixed_orders_of(VectorRegion(PROGRAM, (BLOCKS, BLOCKS, BLOCKS)), target))
