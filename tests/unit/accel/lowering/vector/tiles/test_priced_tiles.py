"""Tiles that are priced by what they move."""

from accel.catalog.load_accelerator import load_accelerator
from accel.expression.parser import parse_statement
from accel.lowering.vector.tiles.priced_tiles import priced_programs
from accel.lowering.vector.tiles.program_buffers import Statements
from accel.region.vector_program import VectorTensor


def test_a_product_of_two_numbers_has_one_tile() -> None:
    """Would catch tiles that are counted by axes, of which it has none."""
    dram = (VectorTensor("x", "float32", ()), VectorTensor("z", "float32", ()), VectorTensor("y", "float32", ()))
    chip = (VectorTensor(name, "float32", (), "v") for name in ("a", "b", "c"))
    texts = ("a[] = x[]", "b[] = z[]", "c[] = 0.0", "c[] += a[] * b[]", "y[] = c[]")
    whole = Statements(
        extents=(),
        tensors={tensor.name: tensor for tensor in (*dram, *chip)},
        operands=("x", "z"),
        results=("y",),
        statements=tuple(map(parse_statement, texts)),
    )
    assert whole.is_priced
    assert [program.tile for _, program in priced_programs(whole, load_accelerator("npu"), 4)] == [()]
