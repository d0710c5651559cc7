"""Mutations of accelerator documents: of the tree of values, of expressions in it, and of the text, JSON or YAML."""

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import yaml

Document = Any
_LARGEST = 1 << 20
_NUMBERS = (
    0, 1, -1, 2, 3, 7, 8, 15, 16, 63, 64, 65, 255, 256, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 63) - 1,
    1 << 63, 1 << 64,
    -(1 << 63), 10**30, 10**400, 0.5, -0.0, 1e300, 1e-300, 1.0000001,
)  # fmt: skip
_TEXTS = (
    "", " ", "x", "\x00", "a" * 10_000, "../../etc/passwd", "%s{0}", "\N{RIGHT-TO-LEFT OVERRIDE}", "\U0001f600", "\n",
    "null", "1e9",
    "__class__", "__import__('os').system('true')", "inp", "wgt", "acc", "out", "uop", "load", "compute", "store",
    "int8", "uint8",
    "int32", "float32", "int7", "int0", "int" + "9" * 5000, "vta", "gemmini", "explicit", "signed", "unsigned",
)  # fmt: skip
_OPERATORS = (
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "<<",
    ">>",
    "&",
    "|",
    "^",
    "<",
    "==",
    "and",
    "or",
    "**",
    "@",
    ":=",
    ",",
    ";",
    "?",
    "=",
)
_KEYS = (
    "name",
    "kind",
    "fields",
    "bits",
    "depth",
    "loops",
    "family",
    "does",
    "cost",
    "parameters",
    "extra",
    "schema_version",
    "",
)
_PLAIN = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
Place = tuple[str | int, ...]


def mutated(document: Document, chance: random.Random) -> bytes:
    """The text of a document with one to six changes, now and then damaged as text too."""
    changed = copy.deepcopy(document)
    for _ in range(min(1 + int(chance.expovariate(1.4)), 6)):
        changed = chance.choices(_CHANGES, _SHARES)[0](changed, chance)
    data = _text(changed, chance)[:_LARGEST]
    return _damaged(data, chance) if chance.random() < 0.25 else data


def _text(document: Document, chance: random.Random) -> bytes:
    if chance.random() < 0.3:
        try:
            return yaml.dump(document, Dumper=_PLAIN, default_flow_style=chance.choice((None, True, False))).encode()
        except (RecursionError, ValueError, UnicodeEncodeError, yaml.YAMLError):
            pass  # half of a surrogate pair, say
    return json.dumps(document, indent=chance.choice((None, 1))).encode()


def _places(document: Document, at: Place = ()) -> list[Place]:
    found = [at]
    if isinstance(document, dict):
        for key, value in document.items():
            found += _places(value, (*at, key))
    elif isinstance(document, list):
        for index, value in enumerate(document[:60]):
            found += _places(value, (*at, index))
    return found


def _at(document: Document, place: Place) -> Document:
    for step in place:
        document = document[step]
    return document


def _somewhere(document: Document, chance: random.Random, kind: type | tuple[type, ...] = object) -> Place | None:
    """A place where such a value stands, not the whole document."""
    found = [place for place in _places(document) if place and isinstance(_at(document, place), kind)]
    return chance.choice(found) if found else None


def _put(document: Document, place: Place | None, value: Document) -> Document:
    if not place:
        return value
    _at(document, place[:-1])[place[-1]] = value
    return document


def _value(chance: random.Random) -> Document:
    return chance.choice((
        chance.choice(_NUMBERS), chance.choice(_NUMBERS), chance.choice(_TEXTS), True, None, [], {}, [[]],
        {"a": {"b": 1}},
        float("inf"), float("nan"), "\ud800", chance.choice(_NUMBERS), [chance.choice(_NUMBERS)] * chance.choice((1,
        70, 3000)),
    ))  # fmt: skip


def _any_value(document: Document, chance: random.Random) -> Document:
    return _put(document, _somewhere(document, chance), _value(chance))


def _number(document: Document, chance: random.Random) -> Document:
    place = _somewhere(document, chance, (int, float))
    if place is None:
        return document
    old = _at(document, place)
    near = [
        old + 1,
        old - 1,
        old * 2,
        -old,
        old // 2,
        old * 1000,
        old + 0.5,
        str(old),
        chance.choice(_NUMBERS),
        chance.choice(_NUMBERS),
    ]
    return _put(document, place, chance.choice(near))


def _exchange(document: Document, chance: random.Random) -> Document:
    """A text by another of the document: a reference to what is not of its kind."""
    first, second = (_somewhere(document, chance, str) for _ in range(2))
    return _put(document, first, _at(document, second)) if first and second else document


def _without(document: Document, chance: random.Random) -> Document:
    place = _somewhere(document, chance)
    if place:
        del _at(document, place[:-1])[place[-1]]
    return document


def _with(document: Document, chance: random.Random) -> Document:
    """A key more, or an element more: one of the others, or something."""
    place = _somewhere(document, chance, (dict, list)) or ()
    inner = _at(document, place)
    if isinstance(inner, dict):
        inner[chance.choice(_KEYS)] = _value(chance)
    elif isinstance(inner, list):
        more = copy.deepcopy(chance.choice(inner)) if inner and chance.random() < 0.7 else _value(chance)
        inner.extend([more] * chance.choice((1, 1, 2, 300)))
    return document


def _graft(document: Document, chance: random.Random) -> Document:
    """A part in the place of another, or inside itself."""
    place, source = _somewhere(document, chance), _somewhere(document, chance, (dict, list))
    return _put(document, place, copy.deepcopy(_at(document, source))) if place and source else document


def _deep(document: Document, chance: random.Random) -> Document:
    value: Document = 1
    for _ in range(chance.choice((5, 50, 99, 150, 900))):
        value = {"a": value} if chance.random() < 0.5 else [value]
    return _put(document, _somewhere(document, chance), value)


def _expression(document: Document, chance: random.Random) -> Document:
    """What an instruction does or costs: tokens taken, repeated, exchanged; parentheses by the thousand."""
    found = [
        place
        for place in _places(document)
        if isinstance(text := _at(document, place), str) and len(text) > 3 and any(c in text for c in "=([+*<")
    ]
    if not found:
        return document
    place = chance.choice(found)
    text = _at(document, place)
    at = chance.randrange(len(text))
    end = at + chance.choice((1, 3, 10))
    other = _at(document, chance.choice(found))
    changed = chance.choice((
        text[:at] + text[end:],
        text[:at] + chance.choice(_OPERATORS) + text[at:],
        text[:at] + str(chance.choice(_NUMBERS)) + text[end:],
        text[:at] + chance.choice(_TEXTS)[:100] + text[at:],
        text + "\n" + other,
        other,
        text[:at] + text[at:end] * chance.choice((2, 50, 1000)) + text[end:],
        text[:at] + "(" * 2000 + text[at:] + ")" * 2000,
        text[:at] + "-" * 3000 + text[at:],
        text + "+1" * chance.choice((5, 500, 20_000)),
        text.replace(text[at:end], text[-3:]),
        text + "[0]" * 500,
    ))  # fmt: skip
    return _put(document, place, changed)


def _damaged(data: bytes, chance: random.Random) -> bytes:
    """The text as another reader might have it, or with what only YAML or a lax parser of JSON has."""
    at = chance.randrange(len(data) + 1)
    line = data.find(b"\n", at) + 1
    bomb = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%b]\n" % (97 + n, 97 + n, b",".join([b"*%c" % (96 + n)] * 9)) for n in range(1, 20)
    )
    return chance.choice((
        data[:at],
        data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :],
        data[:at] + data[at : at + 300] * 20 + data[at:],
        data[:line] + b"family: vta\n" + data[line:],
        data[:line] + b"<<: {family: vta}\n" + data[line:],
        data[:line] + b"x: !!python/object/apply:os.system [true]\n" + data[line:],
        data[:line] + b"? [a, b]\n: 1\n" + data[line:],
        data[:line] + b"x: &a [*a]\n" + data[line:],
        data[:line] + b"\tx: 1\n" + data[line:],
        b"!!python/object:os.system\n" + data,
        b"%YAML 1.1\n---\n" + data + b"\n---\n" + data,
        b"%TAG ! tag:x,2000:\n---\n" + data,
        bomb,
        b"[" * chance.choice((50, 101, 100_000)),
        b"{" + b'"a":{' * 5000,
        b"- " * 100_000,
        b"x: " + b"9" * 100_000,
        b'{"x": ' + b"9" * 5000 + b"}",
        b"x: |\n" + b"  y\n" * 100_000,
        b"\xef\xbb\xbf" + data,
        data.decode(errors="replace").encode("utf-16"),
        data.decode(errors="replace").encode("utf-32"),
        data.replace(b'"', b"'"),
        data.replace(b"1", b"01"),
        data.replace(b":", b": &a", 1),
        data.replace(b"0", b"0x0"),
        data.replace(b"{", b'{"family": 1, ', 3),
        data.replace(b",", b",,", 1),
        data.replace(b"1", b"NaN", 1),
        data.replace(b"1", b"-Infinity", 1),
        data.replace(b"1", b".inf", 1),
        data.replace(b"1", b"1e99999", 1),
        data + data,
        data + b"\x00",
        b"",
    ))  # fmt: skip


Change = Callable[[Document, random.Random], Document]
_WEIGHTED: tuple[tuple[Change, float], ...] = (
    (_any_value, 4), (_number, 6), (_exchange, 4), (_without, 2), (_with, 2), (_graft, 2), (_deep, 0.3), (_expression,
    5),
)  # fmt: skip
_CHANGES = [change for change, _ in _WEIGHTED]
_SHARES = [share for _, share in _WEIGHTED]
