"""Text to a statement."""

import functools

from accel.expression.parser import Dialect, Parser
from accel.expression.tree import Statement

STATEMENTS = Dialect(
    operators=frozenset({"+", "-", "*", "<<", ">>", "&", "^", "|"}),
    functions={"min": (2, 2), "max": (2, 2), "clip": (3, 3), "abs": (1, 1), "rint": (1, 1), "relu": (1, 1)},
    tensors=True,
)


@functools.lru_cache(maxsize=4096)  # a document's are asked for again and again
def parse(text: str) -> Statement:
    """The statement that ``text`` is: ``target[axes] = expression``, or with ``+=``.

    Raises:
        ExpressionError: it is none; the message has the column, what was found and what was expected.
    """
    parser = Parser(text, STATEMENTS)
    target = parser.access(parser.name("the target, such as C[i, j]"))
    accumulate = parser.take("=", "+=") == "+="
    value = parser.expression()
    parser.end()
    return Statement(target, accumulate, value)
