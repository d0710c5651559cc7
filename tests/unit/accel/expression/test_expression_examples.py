"""The examples of docs/expressions.md hold."""

import re
from pathlib import Path

import numpy as np
import pytest

from accel.expression.cost_expression import parse_cost
from accel.expression.element_types import CASTS, TensorType
from accel.expression.parser import STATEMENTS, parse_statement
from accel.expression.typecheck import check_statement
from tests.reference.compiled_statement import compile_statement

PAGE = (Path(__file__).parents[4] / "docs" / "expressions.md").read_text(encoding="utf-8")
FIELDS = {"imm": "int32", "scale": "float32"}


def rows(header: str) -> list[list[str]]:
    """The cells of the table under a header."""
    table = PAGE.split(f"| {header} |\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in table]


@pytest.mark.parametrize(("text", "expected"), rows("expression | is"))
def test_values(text: str, expected: str) -> None:
    typed = check_statement(parse_statement(f"y[] = {text}"), {"y": TensorType("int32", ())}, {})
    assert compile_statement(typed)({"y": np.zeros((), np.int32)}).item() == int(expected)


@pytest.mark.parametrize(("text", "operands"), rows("statement | operands"))
def test_statements(text: str, operands: str) -> None:
    tensors = {}
    for operand in operands.split(", "):
        dtype, name, *shape = operand.split()
        tensors[name] = TensorType(dtype, tuple(int(extent) for part in shape for extent in part.split("x")))
    assert check_statement(parse_statement(text), tensors, FIELDS)


@pytest.mark.parametrize("text", [row[0] for row in rows("cost")])
def test_costs(text: str) -> None:
    assert parse_cost(text).names


def test_the_grammar_names_every_cast_and_function() -> None:
    grammar = PAGE.split("```")[1]
    assert set(re.findall(r'"(\w+)"', re.search("cast  .*", grammar)[0])) == set(CASTS)
    assert set(re.findall(r'"(\w+)"', re.search("function   =.*", grammar)[0])) == set(STATEMENTS.functions)
