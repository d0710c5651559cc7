"""What cannot work is refused before it runs: right documents with one mistake each."""

import re

import pytest

from accel.catalog.load_accelerator import parse_accelerator
from accel.errors import InvalidAccelerator
from tests.accel.wrong.bases import BASES, text
from tests.accel.wrong.capacity import CAPACITY
from tests.accel.wrong.case import Case, TextCase, mistaken, place
from tests.accel.wrong.contractions import CONTRACTIONS
from tests.accel.wrong.copies import COPIES
from tests.accel.wrong.costs import COSTS
from tests.accel.wrong.encoding import ENCODING
from tests.accel.wrong.expressions import EXPRESSIONS
from tests.accel.wrong.families import FAMILIES
from tests.accel.wrong.names import NAMES
from tests.accel.wrong.reach import REACH
from tests.accel.wrong.sync import SYNC
from tests.accel.wrong.text import TEXT
from tests.accel.wrong.values import VALUES

CASES: tuple[Case, ...] = (
    *VALUES,
    *NAMES,
    *ENCODING,
    *CAPACITY,
    *REACH,
    *CONTRACTIONS,
    *COPIES,
    *SYNC,
    *EXPRESSIONS,
    *COSTS,
    *FAMILIES,
)


def test_there_are_enough_of_them() -> None:
    assert len(CASES) + len(TEXT) >= 100
    assert sum(case.beyond_types for case in CASES) >= 60
    ids = [case.id for case in (*CASES, *TEXT)]
    assert len(set(ids)) == len(ids)
    assert {case.base for case in CASES} == set(BASES)


@pytest.mark.parametrize("name", BASES)
def test_the_documents_that_they_are_made_from_are_right(name: str) -> None:
    parse_accelerator(BASES[name])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_mistake_is_refused_where_it_is(case: Case) -> None:
    document = mistaken(case, BASES[case.base])
    with pytest.raises(InvalidAccelerator, match=case.reason) as caught:  # any other error fails the test
        parse_accelerator(document)
    where = place(case.field, document)
    assert caught.value.field == where
    assert caught.value.detail.startswith(f"{where.removeprefix('accelerator.')}: ")
    assert "\n" not in caught.value.detail


@pytest.mark.parametrize("case", TEXT, ids=lambda case: case.id)
def test_a_mistake_in_the_text_is_refused(case: TextCase) -> None:
    right = text(case.base)
    wrong = case.change(right)
    assert wrong != right
    with pytest.raises(InvalidAccelerator) as caught:
        parse_accelerator(wrong.encode())
    assert caught.value.field == case.field
    assert re.search(case.reason, caught.value.detail)
