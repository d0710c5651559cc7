"""What cannot work is refused before it runs: right documents with one mistake each."""

import re

import pytest

from accel.catalog.load_accelerator import parse_accelerator
from accel.errors import InvalidAccelerator
from tests.unit.accel.accelerator.refused.bases import BASES, text
from tests.unit.accel.accelerator.refused.capacity import CAPACITY
from tests.unit.accel.accelerator.refused.case import Case, TextCase, mistaken, place
from tests.unit.accel.accelerator.refused.contractions import CONTRACTIONS
from tests.unit.accel.accelerator.refused.copies import COPIES
from tests.unit.accel.accelerator.refused.costs import COSTS
from tests.unit.accel.accelerator.refused.encoding import ENCODING
from tests.unit.accel.accelerator.refused.expressions import EXPRESSIONS
from tests.unit.accel.accelerator.refused.families import FAMILIES
from tests.unit.accel.accelerator.refused.floats import FLOATS
from tests.unit.accel.accelerator.refused.layers import LAYERS
from tests.unit.accel.accelerator.refused.names import NAMES
from tests.unit.accel.accelerator.refused.reach import REACH
from tests.unit.accel.accelerator.refused.shared_buses import SHARED_BUSES
from tests.unit.accel.accelerator.refused.sliding import SLIDING
from tests.unit.accel.accelerator.refused.sync import SYNC
from tests.unit.accel.accelerator.refused.tables import TABLES
from tests.unit.accel.accelerator.refused.text import TEXT
from tests.unit.accel.accelerator.refused.values import VALUES
from tests.unit.accel.accelerator.refused.views import VIEWS
from tests.unit.accel.accelerator.refused.wide_integers import WIDE_INTEGERS

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
    *SHARED_BUSES,
    *SLIDING,
    *TABLES,
    *FLOATS,
    *LAYERS,
    *WIDE_INTEGERS,
    *VIEWS,
)


def test_there_are_enough_of_them() -> None:
    assert len(CASES) + len(TEXT) >= 150
    assert sum(case.beyond_types for case in CASES) >= 100
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
