"""Instructions that are encoded as parts: which words make one, and what chooses between those that end alike."""

from typing import Any

import numpy as np
import pytest

from accel.accelerator.checks.document_checks import check_document
from accel.accelerator.document import Accelerator
from accel.errors import InvalidAccelerator, SimulationError
from accel.isa.explicit.costs import costs_of
from accel.isa.explicit.document_function import ExplicitMachine
from accel.isa.explicit.explicit_family import FAMILY
from accel.util.arrays import aligned_zeros
from tests.helpers.documents.explicit_documents import _field, row, stream


def raw() -> dict[str, Any]:
    """A load and a store whose shape is set before, and two sorts of arithmetic that end with the same word."""
    memory = {"name": "m", "scope": "local.m", "dtype": "int32", "shape": [2], "depth": 8}
    shape = [_field("opcode", 0, 4, value=1), _field("rows", 8, 4), _field("stride", 16, 8)]
    shape.append(_field("columns", 24, 4))
    move = [_field("sram", 8, 4), _field("dram", 16, 8)]
    fields = {"sram": "move_in.sram", "dram": "move_in.dram", "rows": "shape.rows", "columns": "shape.columns"}
    load: dict[str, Any] = {"name": "load", "kind": "copy", "pragma": "pragma_load", "unit": "dma", "memory": "m"}
    load |= {
        "direction": "load",
        "dram_dtype": "int32",
        "sequence": ["shape", "move_in"],
        "cycles": "bytes + shape.rows",
    }
    load["copy_fields"] = fields | {"row_stride": "shape.stride"}
    stored = {key: value.replace("move_in", "move_out") for key, value in load["copy_fields"].items()}
    operands = {"D": {"memory": "m", "address": "go.d"}, "S": {"memory": "m", "address": "go.s"}}
    compute = {"kind": "compute", "unit": "alu", "operands": operands}
    double = {"name": "double", "when": {"how.op": 0}, "does": "D[i] = S[i] + S[i]"}
    scale = {"name": "scale", "when": {"how.op": 1}, "does": "D[i] = S[i] * factor"}
    return {
        "name": "parts",
        "title": "Parts",
        "family": "explicit",
        "word_bits": 64,
        "memories": [memory],
        "units": ["dma", "alu"],
        "synchronisation": {"kind": "in_order"},
        "instructions": [
            {"name": "shape", "kind": "part", "unit": "dma", "sticky": True, "fields": shape},
            {"name": "move_in", "kind": "part", "unit": "dma", "fields": [_field("opcode", 0, 4, value=2), *move]},
            {"name": "move_out", "kind": "part", "unit": "dma", "fields": [_field("opcode", 0, 4, value=3), *move]},
            {
                "name": "how",
                "kind": "part",
                "unit": "alu",
                "fields": [_field("opcode", 0, 4, value=4), _field("op", 8, 2), _field("factor", 16, 8, type="signed")],
                "energy": "2.5",
            },
            {
                "name": "go",
                "kind": "part",
                "unit": "alu",
                "fields": [_field("opcode", 0, 4, value=5), _field("d", 8, 4), _field("s", 16, 4)],
            },
            load,
            {**load, "name": "store", "direction": "store", "sequence": ["shape", "move_out"], "copy_fields": stored},
            {**compute, "name": "doubled", "pragma": "pragma_a", "sequence": ["how", "go"], "operations": [double]},
            {
                **compute,
                "name": "scaled",
                "pragma": "pragma_b",
                "sequence": ["how", "go"],
                "operations": [scale],
                "cycles": "5 + how.op",
                "energy": "factor",
            },
        ],
    }


def made(document: dict[str, Any]) -> Accelerator:
    accelerator = Accelerator.model_validate(document)
    check_document(accelerator)
    FAMILY.check(accelerator)
    return accelerator


ACCELERATOR = made(raw())
SHAPE = row("shape", rows=2, columns=1, stride=2)


def run(*rows: dict[str, Any]) -> np.ndarray:
    """The DRAM (32 int32) after a launch that finds 0, 1, 2... there."""
    dram = aligned_zeros(128)
    dram.view(np.int32)[:] = np.arange(32)
    ExplicitMachine(ACCELERATOR).run(stream(ACCELERATOR, list(rows)), dram)
    return dram.view(np.int32)


def test_registers_hold_from_word_to_word():
    left = run(
        SHAPE,
        row("move_in", sram=0, dram=1),  # elements 1 and 3: 2, 3 and 6, 7
        row("move_in", sram=2, dram=4),  # with the same shape: 8, 9 and 12, 13
        row("how", op=1, factor=-3),
        row("go", d=5, s=0),
        row("how", op=0),
        row("go", d=6, s=3),
        row("shape", rows=1, columns=2),
        row("move_out", sram=5, dram=10),
    )
    assert left[20:24].tolist() == [-6, -9, 24, 26]


def test_time_and_energy_are_those_of_the_whole():
    decoded = stream(ACCELERATOR, [SHAPE, row("move_in"), row("how", op=1, factor=7), row("go", d=1), row("shape")])
    timing = FAMILY.time(decoded, {})
    assert (timing.end - timing.start).tolist() == [1, 18, 1, 6, 1]
    assert costs_of(decoded, "energy").tolist() == [0, 0, 2.5, 7, 0]
    assert FAMILY.work(decoded).lower_bound == 20
    assert FAMILY.effort(decoded).tolist() == [0, 2, 0, 1, 0]


@pytest.mark.parametrize(
    ("rows", "at", "message"),
    [
        ([row("move_in"), SHAPE], 0, "it ends shape . move_in, and not all of that stands before it"),
        ([row("go")], 0, "it ends how . go or how . go, and not all"),
        ([row("how"), SHAPE, row("go")], 2, "not all of that stands before it"),
        ([row("how"), row("go"), row("go")], 2, "not all of that stands before it"),
        ([row("how", op=3), row("go")], 1, "there are double .how.op = 0.; scale .how.op = 1."),
    ],
)
def test_a_word_whose_parts_are_missing_is_refused(rows, at, message):
    with pytest.raises(SimulationError, match=message) as caught:
        FAMILY.check_launch(stream(ACCELERATOR, rows), 128)
    assert (caught.value.kind, caught.value.instruction) == ("undefined-opcode", at)


def test_a_sticky_part_may_stand_before_others_of_the_sequence():
    document = raw()
    document["instructions"][3]["sticky"] = True  # how: now it need not stand directly before
    accelerator = made(document)
    decoded = stream(accelerator, [row("how", op=0), row("go", d=1), SHAPE, row("go", d=7)])
    FAMILY.check_launch(decoded, 128)
    with pytest.raises(SimulationError, match="index 9 of m"):
        FAMILY.check_launch(stream(accelerator, [row("how", op=1), row("go", d=9)]), 128)


@pytest.mark.parametrize(
    ("index", "change", "path", "message"),
    [
        (4, {"sticky": True}, "instructions.7.sequence.1", "go is sticky"),
        (4, {"unit": "dma"}, "instructions.7.unit", "go is of unit dma, and doubled of alu"),
        (4, {"cycles": "3"}, "instructions.7.sequence.1", "go has cycles of its own"),
        (8, {"sequence": ["shape", "go"], "operations": [{"name": "a", "does": "D[i] = S[i]"}]},
         "instructions.8.operations", "scaled cannot be told from doubled, which ends with go too"),
    ],
)  # fmt: skip
def test_sequences_that_cannot_be_told_apart_are_refused(index, change, path, message):
    document = raw()
    document["instructions"][index] |= change
    if "sequence" in change:
        document["instructions"][8] |= {"cycles": None, "energy": None}
    with pytest.raises(InvalidAccelerator, match=message) as caught:
        made(document)
    assert caught.value.field == f"accelerator.{path}"
