"""Stores that multiply each channel by a number from a memory of the chip: layers with such weights end in them."""

import pytest

from accel.isa.decode import decode
from tests.helpers.documents.channel_stores import BIASED, NARROWED, ROUNDED, SHIFTED, WHOLE, channel_stores
from tests.helpers.marking import rest_all
from tests.helpers.models.build_models import build
from tests.helpers.models.onnxruntime_layers import conv, dense
from tests.integration.accel.lowering.end_to_end.test_compiled_epilogues import region
from tests.integration.accel.lowering.end_to_end.test_compiled_multiplication import PER_CHANNEL, PER_TENSOR, check


@pytest.mark.parametrize(
    ("does", "wide"), rest_all([(ROUNDED, "i64"), (ROUNDED, "i48"), (NARROWED, "i64"), (NARROWED, "i48")])
)
def test_layers_end_in_the_store(does: str, wide: str) -> None:
    """Catches multipliers of another block of channels, and ones that are loaded after the store reads them."""
    machine = channel_stores(does, wide)
    model = dense(PER_CHANNEL, 5, 70, 140)  # three blocks of 64 channels
    found = region(model, machine)
    assert (found.host_reason, found.epilogue.result) == ("", "int8")
    assert found.epilogue.factors is not None
    check(model, machine)


@pytest.mark.parametrize(
    ("does", "wide"), rest_all([(WHOLE, "i64"), (SHIFTED, "i64"), (BIASED, "i64"), (WHOLE, "i48")])
)
def test_shifts_and_biases_are_those_of_channels_too(does: str, wide: str) -> None:
    """Catches operands of a store that are taken for each other, and a bias that is added twice, or not at all."""
    machine = channel_stores(does, wide)
    model = dense(PER_CHANNEL, 5, 70, 140)
    found = region(model, machine)
    assert (found.host_reason, found.epilogue.result) == ("", "int8")
    assert found.epilogue.factors is not None
    assert bool(found.epilogue.factors.shifts) == ("S[l]" in does)
    assert bool(found.epilogue.factors.bias) == ("B[l]" in does)
    assert not (found.epilogue.factors.bias and found.epilogue.has_bias)
    check(model, machine)


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "in_order"), [(1, False), (16, True)])
def test_the_memory_of_multipliers_is_kept_to(depth: int, *, in_order: bool) -> None:
    """Catches a planner that counts no multipliers: a tile has no more blocks than their memory has elements."""
    machine = channel_stores(depth=depth, in_order=in_order)
    for model in (conv(PER_CHANNEL, 20, 150), conv(PER_TENSOR, 64, 64, groups=64)):
        assert region(model, machine).epilogue.factors is not None
        check(model, machine)


def test_a_store_reads_where_its_field_says() -> None:
    machine = channel_stores(depth=16)
    decoded = decode(machine, build(dense(PER_CHANNEL, 5, 70, 140), machine).words)
    names = [each.name for each in machine.instructions]
    stores = decoded.kind == names.index("store_acc8")
    loaded = decoded.column("sram")[decoded.kind == names.index("load_scales")]
    assert stores.any()
    assert set(decoded.column("m")[stores].tolist()) <= {int(at) + block for at in loaded for block in range(3)}
