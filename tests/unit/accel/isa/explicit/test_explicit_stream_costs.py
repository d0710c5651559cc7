"""Costs of a stream: what an instruction would have to have less than nothing of is no sum's part."""

import pytest

from accel.errors import SimulationError
from accel.isa.explicit.costs import costs_of, cycles_of
from accel.isa.explicit.explicit_family import FAMILY
from tests.helpers.documents.explicit_documents import document, row, stream


def _costing(role: str, text: str, *rows: dict[str, int]):
    """A launch of ``gemm`` with these fields, whose cost the document's check has not seen."""
    right = document({"kind": "in_order"})
    instructions = [one.model_copy(update={role: text}) if one.name == "gemm" else one for one in right.instructions]
    return stream(right.model_copy(update={"instructions": tuple(instructions)}), [row("gemm", **one) for one in rows])


def test_energy_is_the_sum_of_the_instructions():
    decoded = _costing("energy", "2.5 * outer", {"outer": 2}, {"outer": 4})
    assert costs_of(decoded, "energy").tolist() == [5.0, 10.0]
    assert FAMILY.energy(decoded) == 15.0


def test_negative_energy_is_an_error_of_its_instruction():
    with pytest.raises(
        SimulationError, match=r"instruction 1 \(gemm\): its energy would be -1; a number from 0"
    ) as caught:
        FAMILY.energy(_costing("energy", "3 - outer", {"outer": 2}, {"outer": 4}))
    assert caught.value.field == "instruction:1"


def test_cycles_without_a_value_are_an_error_of_their_instruction():
    with pytest.raises(SimulationError, match=r"instruction 1 \(gemm\): its cycles: 8 / x .* where x is 0") as caught:
        cycles_of(_costing("cycles", "8 / x", {"x": 2}, {"x": 0}))
    assert (caught.value.kind, caught.value.instruction) == ("cost", 1)
