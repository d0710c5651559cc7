"""Text to tokens."""

import math
import re
from dataclasses import dataclass

from accel.expression.errors import ExpressionError

MAX_LENGTH = 2000

_TOKEN = re.compile(
    r"""(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?)
      | (?P<symbol>\+=|<<|>>|<=|>=|==|!=|//|[-+*/&|^<>=()\[\],])""",
    re.VERBOSE,
)
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class Token:
    """A piece of the text; ``kind`` is ``number``, ``name``, ``symbol`` or ``end``; columns count from 1."""

    kind: str
    text: str
    column: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"'{self.text}'"

    @property
    def value(self) -> int | float:
        """What a number says.

        Raises:
            ExpressionError: it is beyond any type.
        """
        if self.text.isdigit():
            value: int | float = int(self.text) if len(self.text) <= 20 else math.inf
        else:
            value = float(self.text)
        if math.isinf(value):
            raise ExpressionError(f"column {self.column}: the number {self.text[:24]} is out of range")
        return value


def tokenize(text: str) -> list[Token]:
    """The tokens of ``text``, an ``end`` last.

    Raises:
        ExpressionError: the text is too long, or has a character that begins no token.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"the text has {len(text)} characters; expected at most {MAX_LENGTH}")
    tokens: list[Token] = []
    position = _after_space(text, 0)
    while position < len(text):
        found = _TOKEN.match(text, position)
        if not found or found.lastgroup is None:
            raise ExpressionError(f"column {position + 1}: found {text[position]!r}; expected a name, number or symbol")
        tokens.append(Token(found.lastgroup, found.group(), position + 1))
        position = _after_space(text, found.end())
    return [*tokens, Token("end", "", len(text) + 1)]


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position
