"""What only looks wrong is taken, and whatever a document says, nothing but a refusal comes of it."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel.catalog.load_accelerator import parse_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import InvalidAccelerator
from examples.single import Dense, dense_model
from tests.helpers.marking import rest_slow
from tests.unit.accel.accelerator.refused.bases import BASES
from tests.unit.accel.accelerator.refused.borders import BORDERS
from tests.unit.accel.accelerator.refused.case import Case, mistaken

VALUES: tuple[Any, ...] = (
    *(-1, 0, 1, 2, 3, 8, 31, 32, 64, 128, 255, 1000, 4096, 1 << 16, 1 << 20, 1 << 31, 1 << 63, 10**30, 0.5, True),
    *("", "a", "C", "A[i, k]", "load", "int8", "int32", "tokens", "opcode", "rows", "x" * 3000, None, [], {}),
)


@pytest.mark.parametrize("name", BORDERS)
def test_what_is_just_enough_is_taken(name: str) -> None:
    base, path, value = BORDERS[name]
    parse_accelerator(mistaken(Case(name, base, path, value, "", ""), BASES[base]))


@pytest.mark.parametrize("name", rest_slow(["tokens", "parts", "shared"], keep=2))
def test_the_documents_that_are_no_presets_compile_and_compute(name: str, tmp_path: Path) -> None:
    model = dense_model(Dense(5, 24, 12)).SerializeToString()
    report = run_model(model, parse_accelerator(BASES[name]), Options(trace=False), tmp_path)
    assert report.verified
    assert report.macs.share == 1.0


Place = tuple[str | int, ...]


def places(node: Any, path: Place = ()) -> list[Place]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path] * bool(path) + [place for key, value in items for place in places(value, (*path, key))]


PLACES = {name: places(document) for name, document in BASES.items()}


def changed(random: np.random.Generator) -> Any:
    """A right document with something deleted, doubled, copied from elsewhere in it, a little more, or replaced."""
    name = sorted(BASES)[random.integers(len(BASES))]
    right, known = BASES[name], PLACES[name]
    document = copy.deepcopy(right)
    *above, last = known[random.integers(len(known))]
    parent, other = document, right
    for key in above:
        parent = parent[key]
    for key in known[random.integers(len(known))]:
        other = other[key]
    old, act = parent[last], random.integers(6)
    if act == 0:
        del parent[last]
    elif act == 1 and isinstance(parent, list):
        parent.append(copy.deepcopy(old))
    elif act == 2:
        parent[last] = copy.deepcopy(other)
    elif act < 5 and isinstance(old, int):
        parent[last] = old + int(random.integers(-2, 3))
    else:
        parent[last] = VALUES[random.integers(len(VALUES))]
    return document


def taken(seed: int) -> bool:
    try:
        parse_accelerator(changed(np.random.default_rng(seed)))
    except InvalidAccelerator as error:
        refused = error
    else:
        return True
    assert refused.field is not None
    assert refused.detail.startswith(f"{refused.field.removeprefix('accelerator.')}: ")
    return False


def test_any_change_is_taken_or_refused_with_its_place() -> None:
    assert 20 < sum(map(taken, range(300))) < 200


@pytest.mark.long
def test_any_change_at_length() -> None:
    assert sum(map(taken, range(1000, 9000))) > 500
