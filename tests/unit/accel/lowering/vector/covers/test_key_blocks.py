"""What is attention and what is not, by statements: no operator is named, and none has to be."""

from pathlib import Path

import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import parse_accelerator
from accel.expression.parser import parse_statement
from accel.lowering.vector.covers.covered_operators import CoveredOperator
from accel.lowering.vector.covers.key_blocks import cover_key_blocks
from accel.lowering.vector.whole_floats import LegalOperator, LegalStatement, LegalTensor

DOCUMENT = Path(__file__).parents[6] / "docs" / "machines" / "float-array.yaml"
EXTENTS = {"q": 6, "k": 20, "d": 4, "w": 3}
LEAST = -3.4028234663852886e38
SCORES = ("s[q, k] += x[q, d] * y[k, d]", "s2[q, k] = s[q, k] / 2.0")
MAXIMUM = ("m[q] max= s2[q, k]",)
WEIGHTS = ("e[q, k] = exp(s2[q, k] - m[q])", "l[q] += e[q, k]", "p[q, k] = e[q, k] / l[q]")
CONTEXT = ("c[q, w] += p[q, k] * v[k, w]",)
STARTS = {"max": LEAST, "+": 0.0}


@pytest.fixture(scope="module")
def target() -> Target:
    return Target(parse_accelerator(DOCUMENT.read_bytes()))


def operator(*texts: str, inputs: str = "xyv") -> LegalOperator:
    """Statements as an operator whose result is the last target."""
    tensors: dict[str, LegalTensor] = {}
    statements = []
    for text in texts:
        parsed = parse_statement(text)
        for leaf in (parsed.target, *parsed.accesses):
            tensors[leaf.name] = LegalTensor(tuple(EXTENTS[axis] for axis in leaf.axes), "float32")
        labels = {axis: EXTENTS[axis] for axis in parsed.axes}
        start = STARTS.get(str(parsed.combiner))
        statements.append(LegalStatement(parsed.target, parsed.combiner, start, parsed.value, labels))
    return LegalOperator(tensors, tuple(inputs), statements[-1].target.name, tuple(statements))


def split(found: CoveredOperator | None) -> tuple[list[str], list[str], list[str]]:
    """The statements ahead of blocks, of a block, and behind."""
    assert found is not None
    assert found.stream is not None
    every = [str(statement) for statement in found.statements]
    first, last = found.stream.first, found.stream.last
    return every[:first], every[first:last], every[last:]


def test_sums_go_on_from_block_to_block_and_are_divided_once(target: Target) -> None:
    """It would catch a division in each block, a maximum that begins anew, and sums that do not shrink as it grows."""
    begin, block, end = split(cover_key_blocks(operator(*SCORES, *MAXIMUM, *WEIGHTS, *CONTEXT), target, "v"))
    assert len(begin) == len(("m", "l", "c"))
    assert not any("/ l" in statement for statement in block)
    assert sum("max=" in statement for statement in block) == 1
    assert not any(statement.startswith("m[") and "=" in statement and "max" not in statement for statement in block)
    shrunk = [statement for statement in block if statement.endswith("* m_shrinks[a0]")]
    assert len(shrunk) == len(("l", "c"))
    assert [statement for statement in end if "/ l" in statement]


def test_a_softmax_may_be_written_out_and_divide_by_a_reciprocal(target: Target) -> None:
    texts = ("z[q, k] = s2[q, k] - m[q]", "e[q, k] = exp(z[q, k])", "l[q] += e[q, k]", "r[q] = recip(l[q])")
    more = ("p[q, k] = e[q, k] * r[q]", *CONTEXT)
    begin, block, end = split(cover_key_blocks(operator(*SCORES, *MAXIMUM, *texts, *more), target, "v"))
    assert begin
    assert not any("recip" in statement for statement in block)
    assert any("recip" in statement for statement in end)


@pytest.mark.parametrize(
    "texts",
    [
        (*SCORES, "m[k] max= s2[q, k]", "e[q, k] = exp(s2[q, k] - m[k])", "l[q] += e[q, k]", *CONTEXT),
        (*SCORES, *MAXIMUM, "e[q, k] = exp(s[q, k] - m[q])", *WEIGHTS[1:], *CONTEXT),
        (*SCORES, *MAXIMUM, *WEIGHTS, "o[q, k] = p[q, k] * p[q, k]", "c[q, w] += o[q, k] * v[k, w]"),
        (*SCORES, *MAXIMUM, *WEIGHTS, "c[q, w] += p[q, k] * p[q, k]"),
        (*SCORES, *MAXIMUM, "e[q, k] = exp(s2[q, k] - m[q])", "n[q] max= e[q, k]", "c[q, w] += e[q, k] * v[k, w]"),
        (*SCORES, *MAXIMUM, *WEIGHTS),
        (*SCORES, "e[q, k] = exp(s2[q, k])", "l[q] += e[q, k]", "p[q, k] = e[q, k] / l[q]", *CONTEXT),
    ],
    ids=["another axis", "other scores", "squares", "of weights twice", "two maxima", "weights leave", "no maximum"],
)
def test_what_is_no_attention_is_left_as_it_is(texts: tuple[str, ...], target: Target) -> None:
    """Each would give other numbers, or none at all, over blocks of keys."""
    made = operator(*texts, inputs="xyv" if any("v[" in text for text in texts) else "xy")
    assert cover_key_blocks(made, target, "v") is None
