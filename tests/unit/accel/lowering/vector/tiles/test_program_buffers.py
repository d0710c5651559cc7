"""Buffers that loads have for themselves, and go back from; and loads that each tile does for itself."""

from dataclasses import replace

from accel.lowering.vector.tiles.program_buffers import has_loads_apart, loads_apart, loads_together, ways_to_load
from accel.region.vector_program import VectorProgram, VectorTensor

AT = "[a0]"


def program(*statements: str) -> VectorProgram:
    dram = (VectorTensor("x", "int8", (0,)), VectorTensor("z", "float32", (0,)), VectorTensor("y", "int8", (0,)))
    buffers = (VectorTensor("b0", "float32", (0,), "v"), VectorTensor("b1", "float32", (0,), "v"))
    return VectorProgram((64,), (8,), (*dram, *buffers), 1, tuple(each.replace("@", AT) for each in statements), 2)


GATE = program("b0@ = f32(x@)", "b1@ = exp(b0@)", "b0@ = z@", "b0@ = b1@ * b0@", "y@ = i8(b0@)")


def test_a_load_into_a_used_buffer_has_one_of_its_own() -> None:
    apart = loads_apart(GATE)
    assert [str(statement).replace(AT, "") for statement in apart.parsed] == [
        *("b0 = f32(x)", "b1 = exp(b0)", "b0_5 = z", "b0_5 = b1 * b0_5", "y = i8(b0_5)")
    ]
    assert [tensor.name for tensor in apart.on_chip] == ["b0", "b1", "b0_5"]
    assert has_loads_apart(apart)
    assert not has_loads_apart(GATE)


def test_what_was_taken_apart_is_put_together_again() -> None:
    together = loads_together(loads_apart(GATE))
    assert together.parsed == GATE.parsed
    assert together.tensors == GATE.tensors
    assert list(ways_to_load(loads_apart(GATE))) == [together, loads_apart(GATE)]


def test_loads_into_buffers_of_their_own_stay() -> None:
    plain = program("b0@ = f32(x@)", "b1@ = z@", "b0@ = b1@ * b0@", "y@ = i8(b0@)")
    assert loads_apart(plain) is plain
    assert list(ways_to_load(plain)) == [plain]


def test_tiles_may_load_again_what_all_have_in_common() -> None:
    """Would catch a first tile that waits for operands that it needs last, as no program has them behind its own."""
    rows = (VectorTensor("z", "float32", (1,)), VectorTensor("b1", "float32", (1,), "v"))
    images = (*(VectorTensor(name, "int8", (0, 1)) for name in "xy"), VectorTensor("b0", "float32", (0, 1), "v"))
    statements = ("b0[a0, a1] = f32(x[a0, a1])", "b1[a1] = z[a1]", "b0[a0, a1] = b0[a0, a1] * b1[a1]")
    scaled = VectorProgram((64, 8), (8, 8), (*images, *rows), 1, (*statements, "y[a0, a1] = i8(b0[a0, a1])"), 2)
    shared, again = ways_to_load(scaled)
    assert (shared.shared, again.shared) == ({"b1"}, frozenset())
    assert replace(again, loads_again=False) == shared == scaled
    assert list(ways_to_load(again)) == [shared, again]
    assert list(ways_to_load(replace(scaled, tile=(64, 8)))) == [replace(scaled, tile=(64, 8))]  # nothing is shared
