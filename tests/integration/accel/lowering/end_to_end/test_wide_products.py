"""Requantisation by multipliers of 31 bits: products of 48 and 64 bits, in a vector unit's instruction or a store."""

import pytest

from accel.accelerator.instructions import BitField, Operation
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.lowering.analysis.capabilities import Capabilities
from tests.helpers.marking import others_all, rest_all
from tests.helpers.models.onnxruntime_layers import conv, dense
from tests.integration.accel.lowering.end_to_end.test_compiled_epilogues import region
from tests.integration.accel.lowering.end_to_end.test_compiled_multiplication import (
    PER_CHANNEL,
    PER_TENSOR,
    check,
    names,
    vector,
)

BY_TENSOR = "DST[l] = clip(i32(({0}(DST[l]) * {0}(SRC[l]) + ({0}(1) << imm - 1)) >> imm), -128, 127)"
NARROWED_LAST = "DST[l] = i32(clip(({0}(DST[l]) * {0}(SRC[l]) + ({0}(1) << imm - 1)) >> imm, -128, 127))"
WITHOUT_HALF = "DST[l] = i32({0}(DST[l]) * {0}(SRC[l]) >> imm)"
FIXED = "DST[l] = i32(({0}(DST[l]) * {0}(SRC[l]) + ({0}(1) << 30)) >> 31)"


@pytest.mark.parametrize(
    ("does", "wide"),
    others_all(
        [(BY_TENSOR, "i64"), (BY_TENSOR, "i48"), (NARROWED_LAST, "i64"), (WITHOUT_HALF, "i48"), (FIXED, "i64")],
        [(BY_TENSOR, "i64")],
    ),
)
def test_one_instruction_multiplies_shifts_and_clips(does: str, wide: str) -> None:
    """Catches a product that is cut to 32 bits, a half of the wrong width, and multipliers of another channel."""
    machine = vector(requantise=does.format(wide))
    found = Capabilities.of(Target(machine)).wide_product
    assert found is not None
    assert (found.bits, found.widens, found.most) == (int(wide[1:]), True, (1 << 31) - 1)
    assert ("joined" if does == WITHOUT_HALF else "rounded") == found.form
    assert {"widen", "multiply_tensor", "narrow"} <= set(names(conv(PER_CHANNEL, 20, 40), machine))
    check(conv(PER_CHANNEL, 20, 40), machine)


@pytest.mark.slow
@pytest.mark.parametrize("wide", rest_all(["i64", "i48"]))
def test_a_store_multiplies_and_shifts(wide: str) -> None:
    """Catches fields of a store that are found by the product's low bits alone."""
    whole = load_accelerator("vector")
    store = next(each for each in whole.instructions if each.name == "store_acc8")
    top = max(field.lsb + field.bits for field in store.fields)
    base = -(-top // 64) * 64
    fields = (
        *store.fields,
        BitField(name="by", lsb=base, bits=32, type="signed"),
        BitField(name="down", lsb=base + 32, bits=6),
    )
    does = f"dram[l] = i8(clip(({wide}(sram[l]) * by + ({wide}(1) << down - 1)) >> down, -128, 127))"
    operation = Operation(name="requantise", does=does)
    made = store.model_copy(update={"fields": fields, "operations": (operation,)})
    machine = whole.model_copy(
        update={
            "instructions": tuple(made if each is store else each for each in whole.instructions),
            "word_bits": max(whole.word_bits, base + 64),
        }
    )
    for model in (conv(PER_TENSOR, 20, 40), dense(PER_TENSOR, 5, 70, 40)):
        scaling = region(model, machine).epilogue.scaling
        assert scaling is not None
        assert scaling.product == int(wide[1:])
        check(model, machine)
