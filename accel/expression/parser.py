"""Parsing of statements and costs: text to tokens, and recursive descent over them."""

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from accel.expression.element_types import CASTS
from accel.expression.syntax_tree import (
    COMPARISONS,
    FLOAT_FUNCTIONS,
    PRECEDENCE,
    Access,
    AffineIndex,
    Binary,
    Call,
    Cast,
    Combiner,
    Expression,
    ExpressionError,
    Index,
    Literal,
    Lookup,
    Negate,
    Scalar,
    Select,
    Statement,
    children,
)

MAX_LENGTH = 2000
MAX_STEP = 1 << 16  # of an axis in an index

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
        """The value of a number.

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
    """Returns the tokens of ``text``, an ``end`` last.

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


MAX_DEPTH = 50
# a printed tree has a bracket and the right side of an operator for each of its levels
_MAX_NESTING = 2 * MAX_DEPTH


@dataclass(frozen=True)
class Dialect:
    """What a text may hold; ``functions`` gives the fewest and the most arguments of each."""

    operators: frozenset[str]
    functions: Mapping[str, tuple[int, int]]
    tensors: bool

    @property
    def words(self) -> frozenset[str]:
        """The reserved words, which can name no tensor, scalar or axis."""
        return frozenset(self.functions) | (frozenset(CASTS) | {"select", "lut"} if self.tensors else frozenset())


class Parser:
    """One text; each method takes what it is named after and leaves the position behind it."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._tokens = tokenize(text)
        self._position = 0
        self._nesting = 0
        self._dialect = dialect

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._position]

    def advance(self) -> Token:
        """Takes the next token."""
        token = self.token
        self._position += token.kind != "end"
        return token

    def fail(self, expected: str) -> NoReturn:
        """Refuses the next token, and states what was expected.

        Raises:
            ExpressionError: always.
        """
        raise ExpressionError(f"column {self.token.column}: found {self.token}; expected {expected}")

    def take(self, *symbols: str) -> str:
        """Takes one of ``symbols``."""
        if self.token.kind != "symbol" or self.token.text not in symbols:
            self.fail(" or ".join(f"'{symbol}'" for symbol in symbols))
        return self.advance().text

    def end(self) -> None:
        """Refuses text behind the end of the statement or cost."""
        if self.token.kind != "end":
            self.fail("an operator or the end")

    def expression(self) -> Expression:
        """Returns a whole expression.

        Raises:
            ExpressionError: it cannot be parsed, or is nested deeper than ``MAX_DEPTH``.
        """
        found = self._binary(1)
        level = [found]
        for _ in range(MAX_DEPTH):
            level = [child for node in level for child in children(node)]
        if level:
            self._too_deep()
        return found

    def access(self, name: str) -> Access:
        """Returns the access that the brackets behind a tensor's name make."""
        self.take("[")
        indices: list[Index] = []
        while not self._symbol("]"):
            if indices:
                self.take(",")
            indices.append(self._index())
        self.take("]")
        return Access(name, tuple(indices))

    def combiner(self) -> Combiner | None:
        """Takes the sign behind a target; returns how values are combined with it, None where it is overwritten."""
        word = self.token.text
        if word in ("max", "min"):
            self.advance()
            self.take("=")
            return "max" if word == "max" else "min"
        if word not in ("=", "+="):
            self.fail("'=', '+=', 'max=' or 'min='")
        return "+" if self.take("=", "+=") == "+=" else None

    def name(self, what: str) -> str:
        """Returns the next token's name, which is no word of the language and has no point; ``what`` it is to name."""
        token = self.token
        if token.kind != "name" or token.text in self._dialect.words or "." in token.text:
            self.fail(what)
        return self.advance().text

    def _index(self) -> Index:
        """An axis, an integer, or a sum of axes in steps, which may end with an integer."""
        terms: dict[str, int | str] = {}
        while True:
            column = self.token.column
            axis, step = self._index_term()
            if axis is None:
                assert isinstance(step, int)
                return _index_of(terms, step)
            if axis in terms:
                raise ExpressionError(f"column {column}: found {axis} again; expected each axis of an index once")
            terms[axis] = step
            if not self._symbol("+"):
                return _index_of(terms, 0)
            self.advance()

    def _index_term(self) -> tuple[str | None, int | str]:
        """An axis and its step; or no axis, and the number that an index ends with."""
        column = self.token.column
        if self.token.kind == "number" and isinstance(value := self.token.value, int):
            self.advance()
            if not self._symbol("*"):
                return None, value
            if not 1 <= value <= MAX_STEP:
                raise ExpressionError(f"column {column}: found the step {value}; expected 1 to {MAX_STEP}")
            self.advance()
            return self.name("the axis that steps"), value
        name = self.name("an axis or an integer")
        if not self._symbol("*"):
            return name, 1
        self.advance()
        return self.name("the axis that steps"), name

    def _symbol(self, symbol: str) -> bool:
        return self.token.kind == "symbol" and self.token.text == symbol

    def _binary(self, least: int) -> Expression:
        """Operators that bind at least so tightly, from left to right."""
        self._enter()
        left = self._unary()
        while self._operator() and PRECEDENCE[self.token.text] >= least:
            operator = self.advance().text
            left = Binary(operator, left, self._binary(PRECEDENCE[operator] + 1))
        self._nesting -= 1
        return left

    def _operator(self) -> bool:
        return self.token.kind == "symbol" and self.token.text in self._dialect.operators

    def _unary(self) -> Expression:
        if not self._symbol("-"):
            return self._primary()
        self.advance()
        if self.token.kind == "number":
            return Literal(-self.advance().value)
        self._enter()
        negated = Negate(self._unary())
        self._nesting -= 1
        return negated

    def _primary(self) -> Expression:
        token = self.token
        if self._symbol("("):
            self.advance()
            inner = self._binary(1)
            self.take(")")
            return inner
        if token.kind == "number":
            value = token.value
            self.advance()
            return Literal(value)
        if token.kind != "name":
            self.fail("a number, a name, '-' or '('")
        return self._named()

    def _named(self) -> Expression:
        word = self.token.text
        if word in self._dialect.words:
            self.advance()
            return self._called(word)
        following = self._tokens[self._position + 1]
        if following.text == "(":
            self.fail(f"a function, one of {', '.join(sorted(self._dialect.words))}")
        if self._dialect.tensors and following.text == "[":
            return self.access(self.name("the name of a tensor"))
        return Scalar(self.advance().text)

    def _called(self, word: str) -> Expression:
        self.take("(")
        if self._dialect.tensors and word == "select":
            found: Expression = self._select()
        elif self._dialect.tensors and word == "lut":
            table = self.name("the name of a table")
            where = self.access(table) if self._symbol("[") else table
            self.take(",")
            found = Lookup(where, self._binary(1))
        elif self._dialect.tensors and word in CASTS:
            found = Cast(word, self._binary(1))
        else:
            found = Call(word, self._arguments(*self._dialect.functions[word]))
        self.take(")")
        return found

    def _arguments(self, fewest: int, most: int) -> tuple[Expression, ...]:
        arguments = [self._binary(1)]
        while len(arguments) < fewest or (len(arguments) < most and self._symbol(",")):
            self.take(",")
            arguments.append(self._binary(1))
        return tuple(arguments)

    def _select(self) -> Select:
        left = self._binary(1)
        comparison = self.take(*COMPARISONS)
        right = self._binary(1)
        self.take(",")
        then = self._binary(1)
        self.take(",")
        return Select(comparison, left, right, then, self._binary(1))

    def _enter(self) -> None:
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            self._too_deep()

    def _too_deep(self) -> NoReturn:
        raise ExpressionError(f"column {self.token.column}: found more than {MAX_DEPTH} levels; expected fewer")


def _index_of(terms: dict[str, int | str], offset: int) -> Index:
    """The index that is a sum; an axis or a number where it is no more."""
    if not terms:
        return offset
    if not offset and list(terms.values()) == [1]:
        return next(iter(terms))
    return AffineIndex(tuple(terms.items()), offset)


STATEMENTS = Dialect(
    operators=frozenset({"+", "-", "*", "/", "<<", ">>", "&", "^", "|"}),
    functions={"min": (2, 2), "max": (2, 2), "clip": (3, 3), "abs": (1, 1), "relu": (1, 1)}
    | dict.fromkeys(FLOAT_FUNCTIONS, (1, 1)),
    tensors=True,
)


@functools.lru_cache(maxsize=4096)  # a document's are asked for again and again
def parse_statement(text: str) -> Statement:
    """Returns the statement of ``text``: ``target[axes] = expression``, or with ``+=``, ``max=`` or ``min=``.

    Raises:
        ExpressionError: it cannot be parsed; the message has the column, what was found and what was expected.
    """
    parser = Parser(text, STATEMENTS)
    target = parser.access(parser.name("the target, such as C[i, j]"))
    combiner = parser.combiner()
    value = parser.expression()
    parser.end()
    return Statement(target, combiner, value)
