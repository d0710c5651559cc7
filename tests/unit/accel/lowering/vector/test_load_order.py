"""The order of a program's loads: what most work waits for comes first, and no statement passes one it depends on."""

import random

from accel.expression.parser import parse_statement
from accel.lowering.vector.load_order import with_loads_in_order
from accel.lowering.vector.tiles.program_buffers import Statements
from accel.region.vector_program import Stream, VectorTensor

AT = "[a0, a1]"
IN_DRAM = ("x", "z", "w", "y")


def program(*texts: str) -> Statements:
    """Statements over 4 x 64 elements; of names with ``r`` in front one for each row."""
    statements = tuple(parse_statement(text.replace("@", AT)) for text in texts)
    names = dict.fromkeys(name for each in statements for name in (each.target.name, *each.operands))
    tensors = {
        name: VectorTensor(name, "float32", (0,) if name[0] == "r" else (0, 1), "" if name in IN_DRAM else "v")
        for name in names
    }
    operands = tuple(name for name in names if name in "xzw")
    return Statements((4, 64), tensors, operands, ("y",), statements)


def ordered(whole: Statements) -> list[str]:
    return [str(each).replace(AT, "@") for each in with_loads_in_order(whole).statements]


def test_an_operand_that_is_scaled_comes_before_one_that_is_not() -> None:
    """Would catch a scaling that waits for the second load, though it needs the first alone."""
    assert ordered(program("b@ = x@", "c@ = z@", "c@ = c@ * 2.0", "b@ = b@ + c@", "y@ = b@")) == [
        *("c@ = z@", "c@ = c@ * 2.0", "b@ = x@", "b@ = b@ + c@", "y@ = b@")
    ]


def test_a_program_whose_loads_are_in_order_stays() -> None:
    norm = program("b@ = x@", "r1[a0] = 0.0", "r1[a0] += b@", "b@ = b@ - r1[a0]", "c@ = z@", "b@ = b@ * c@", "y@ = b@")
    assert with_loads_in_order(norm) is norm


def test_what_a_sum_begins_with_stays_before_it() -> None:
    """Would catch a zero that is written behind the sum that goes on from it, or far ahead of it."""
    whole = program(
        *("b@ = x@", "c@ = z@", "r1[a0] = 0.0", "r1[a0] += c@", "c@ = c@ - r1[a0]", "b@ = b@ + c@", "y@ = b@")
    )
    assert ordered(whole)[:4] == ["c@ = z@", "r1[a0] = 0.0", "r1[a0] += c@", "c@ = c@ - r1[a0]"]


def test_a_program_with_a_stream_stays() -> None:
    whole = program("b@ = x@", "c@ = z@", "c@ = c@ * 2.0", "b@ = b@ + c@", "y@ = b@")
    streamed = Statements(
        whole.extents, whole.tensors, whole.operands, whole.results, whole.statements, Stream(1, 0, 2)
    )
    assert with_loads_in_order(streamed) is streamed


def test_no_statement_passes_one_that_it_depends_on() -> None:
    """Random programs whose buffers are written again: each reads in its new place what it read before."""
    rng = random.Random(7)
    for _ in range(50):
        texts, known = list[str](), list[str]()
        for _ in range(rng.randint(4, 12)):
            target = rng.choice(["b", "c", "d"])
            if len(known) < 2 or rng.random() < 0.3:
                texts.append(f"{target}@ = {rng.choice(['x', 'z', 'w'])}@")
            else:
                texts.append(f"{target}@ = {rng.choice(known)}@ {rng.choice('+*')} {rng.choice(known)}@")
            known.append(target)
        texts.append(f"y@ = {known[-1]}@")
        whole = program(*texts)
        assert _values(ordered(whole)) == _values(texts)


def _values(texts: list[str]) -> str:
    """What the result is, as an expression over operands."""
    values = {name: name for name in IN_DRAM}
    for text in texts:
        target, _, read = text.replace("@", "").partition(" = ")
        values[target] = "(" + "".join(values.get(part, part) for part in read.split()) + ")"
    return values["y"]
