"""Costs by the document's expressions."""

import numpy as np
import pytest

from accel.accelerator.checks.document_checks import check_document
from accel.accelerator.document import Accelerator
from accel.errors import SimulationError
from accel.isa.cost_expressions import energy_of, evaluate_cost
from accel.isa.decode import decode
from tests.helpers.documents.parts_document import document
from tests.helpers.programs.golden import board
from tests.helpers.programs.streams import stream

ONE_AND_A_HALF = int(np.array([1.5], np.float32).view(np.uint32)[0])


def test_energy_is_the_sum_over_the_instructions_that_say() -> None:
    accelerator = Accelerator.model_validate(document())
    check_document(accelerator)
    words = [1 | 5 << 12, 1 | 3 << 12, 2 | ONE_AND_A_HALF << 32, 3]
    decoded = decode(accelerator, np.array(words, np.uint64).reshape(-1, 1))
    assert energy_of(decoded) == (5 + 3) * (2 * 16 + 1) + 4 * 1.5
    assert energy_of(decoded.slice(3, 4)) == 0.0


def test_a_document_without_energy_says_none() -> None:
    assert energy_of(stream(board(), [("finish", {})])) is None


def test_a_cost_of_a_sequence_takes_fields_of_its_parts() -> None:
    accelerator = Accelerator.model_validate(document())
    matmul = accelerator.instruction("matmul")
    columns = {"go.n": np.array([3, 4])}
    assert evaluate_cost(matmul.cycles or "", accelerator, matmul, columns.__getitem__).tolist() == [
        3 + 3 + 16,
        4 + 4 + 16,
    ]


def test_fields_and_the_bus_stand_in_costs() -> None:
    accelerator = board()
    alu = accelerator.instruction("alu")
    columns = {"imm": np.array([-3, 5]), "iter_out": np.array([2, 7])}
    found = evaluate_cost("max(imm, 0) + ceil(iter_out / bus_bytes)", accelerator, alu, columns.__getitem__)
    assert found.tolist() == [1, 6]


def test_a_cost_that_is_no_number_is_told_of() -> None:
    base = board()
    finish = base.instruction("finish").model_copy(update={"energy": "1 / push_prev"})
    changed = base.model_copy(update={"instructions": (*base.instructions[:-1], finish)})
    with pytest.raises(SimulationError, match=r"energy of finish: .* divides by zero"):
        energy_of(stream(changed, [("finish", {})]))
