"""Machines of other shapes than the presets: what a check takes is compiled and right, and the plan says what runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import parse_accelerator
from accel.driver.dry_run import plan_model
from accel.errors import CompileError
from accel.lowering.inject.injection import inject
from accel.program.program_model import Launch
from accel.report.documents.plan_documents import Plan
from accel.simulate.engine import simulate
from examples.single import Conv, conv_model
from tests.helpers.documents.array_shapes import array, preset, requantising, storing
from tests.helpers.marking import rest_all, rest_slow
from tests.helpers.models.additions import addition
from tests.helpers.models.build_models import build, imported, lower
from tests.helpers.models.onnxruntime_layers import Kind, conv
from tests.integration.accel.lowering.end_to_end.test_compiled_additions import addition as scaled_addition
from tests.reference.host import draw_inputs, run_relax

RELU = conv_model(Conv(5, 9, 6, 5, relu=True))
ANY_SCALES = conv(Kind(y_zero=9), 8, 8)
PER_CHANNEL = conv(Kind(per_channel=True), 8, 8)
SUM, ANY_SUM = addition(), scaled_addition((0.031, 0.047, 0.06), (3, 99, 200), shape=(1, 8, 4, 3))


def planned(document: dict[str, Any], model: onnx.ModelProto) -> Plan:
    """The plan, after the model has run as it says, bit for bit as the integer graph does."""
    accelerator = parse_accelerator(document)
    plan = plan_model(model.SerializeToString(), accelerator)
    program, inputs = build(model, accelerator), draw_inputs(model)
    assert [step.name for step in program.steps if isinstance(step, Launch)] == [one.name for one in plan.launches]
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    wanted = run_relax(imported(model, accelerator), *inputs.values())
    for output, expected in zip(program.outputs, wanted, strict=True):
        np.testing.assert_array_equal(simulation.outputs[output], expected)
    return plan


def on_host(plan: Plan) -> dict[str, str]:
    """The reasons of the nodes that the host runs, or has a part in."""
    return {node.name: node.reason for node in plan.nodes if node.reason is not None}


@pytest.mark.parametrize("unit", rest_slow([[2], [2, 4], [8]]))
def test_a_unit_that_covers_a_part_of_a_tile_runs_in_pieces(unit: Sequence[int]) -> None:
    plan = planned(array(8, 8, 8, unit=unit), RELU)
    assert len(plan.launches) == 1
    assert on_host(plan) == {}


@pytest.mark.parametrize(("rows", "unit"), rest_slow([(1, (2,)), (8, (3,)), (8, (16,))]))
def test_a_unit_that_does_not_divide_a_tile_is_named(rows: int, unit: Sequence[int]) -> None:
    plan = planned(array(rows, 8, 8, unit=unit), RELU)
    works = f"valu works on {unit[0]}x8 of acc at once, and a tile of vmac has {rows}x8"
    assert on_host(plan).keys() == {"conv", "relu"}
    assert all(reason.endswith(works) for reason in on_host(plan).values())


@pytest.mark.slow
def test_of_two_units_the_one_that_fits_is_used() -> None:
    document = array(1, 8, 8, unit=(2,))
    document["instructions"].append(
        {
            **next(made for made in array(1, 8, 8)["instructions"] if made["name"] == "valu"),
            "name": "narrow", "pragma": "pragma_narrow",
            "fields": [
                {**field, "value": 9} if field["name"] == "opcode" else field
                for made in preset("vector")["instructions"] if made["name"] == "valu" for field in made["fields"]
            ],
        }
    )  # fmt: skip
    plan = planned(document, RELU)
    assert on_host(plan) == {}
    assert {"narrow"} == {one.instruction for one in plan.launches[0].instructions if one.role == "epilogue"}


@pytest.mark.parametrize(
    "does",
    rest_slow(
        [
            "clip((V[l] * imm) >> sh, lo, hi)",
            "clip(V[l] * imm >> sh, -128, 127)",
            "max(min((imm * V[l]) >> sh, hi), lo)",
            "clip((V[l] * imm + (1 << sh - 1)) >> sh, lo, hi)",
        ]
    ),
)
def test_an_instruction_that_multiplies_shifts_and_clips_at_once_requantises(does: str) -> None:
    plan = planned(requantising(does), ANY_SCALES)
    assert on_host(plan) == {}
    assert [one.instruction for one in plan.launches[0].instructions if one.role == "epilogue"] == ["requantise"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "does",
    rest_all(["clip((V[l] * imm + (1 << sh - 1)) >> sh, lo, hi)", "clip((V[l] * M[l]) >> sh, lo, hi)"]),
)
def test_what_multiplies_and_shifts_at_once_shifts_alone_too(does: str) -> None:
    plan = planned(requantising(does), RELU)
    assert on_host(plan) == {}
    assert [one.instruction for one in plan.launches[0].instructions if one.role == "epilogue"] == ["requantise"]


@pytest.mark.slow
def test_channels_of_scales_of_their_own_are_multiplied_by_a_tensor_at_once() -> None:
    assert on_host(planned(requantising("clip((V[l] * M[l]) >> sh, lo, hi)"), PER_CHANNEL)) == {}


@pytest.mark.parametrize("value", rest_slow(["sram[] * imm + (1 << sh - 1)", "sram[] * imm"]))
def test_a_store_that_multiplies_shifts_and_clips_requantises(value: str) -> None:
    assert on_host(planned(storing(f"i8(clip(({value}) >> sh, -128, 127))"), ANY_SCALES)) == {}


_SCALED, _SHIFTED = "i8(clip(rint(f32(sram[]) * scale), -128, 127))", "i8(clip(sram[] >> sh, -128, 127))"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "plain", "relu"),
    rest_all(
        [
            ("scale", _SCALED, "i8(clip(rint(f32(sram[]) * scale), 0, 127))"),
            ("scale", _SCALED, f"relu({_SCALED})"),
            ("shift", _SHIFTED, "i8(clip(relu(sram[]) >> sh, -128, 127))"),
            ("scale", _SCALED, "i8(clip(rint(f32(max(sram[], 0)) * scale), -128, 127))"),
            ("scale", _SCALED, "i8(relu(clip(rint(f32(sram[]) * scale), -128, 127)))"),
            ("shift", _SHIFTED, f"max({_SHIFTED}, 0)"),
        ],
        keep=3,
    ),
)
def test_a_relu_of_a_store_of_its_own_is_used_wherever_it_stands(base: str, plain: str, relu: str) -> None:
    plan = planned(storing(plain, relu, base=base), RELU)
    assert on_host(plan) == {}
    assert [one.instruction for one in plan.launches[0].instructions if one.role == "store"] == ["store1"]


@pytest.mark.parametrize(("base", "plain"), rest_slow([("scale", _SCALED), ("shift", _SHIFTED)]))
def test_where_there_is_no_relu_the_host_clips_and_no_more(base: str, plain: str) -> None:
    plan = planned(storing(plain, base=base), RELU)
    assert len(plan.launches) == 1
    (reason,) = on_host(plan).values()
    assert on_host(plan).keys() == {"relu"}
    assert "which clips to -128 and 127, not to 0 and 127" in reason
    assert plan.launches[0].host[-1].startswith("the host clips its int8 result")


@pytest.mark.parametrize(("rows", "n", "k"), rest_slow([(1, 32, 8), (1, 4, 16), (8, 32, 8)]))
def test_machines_whose_tiles_are_not_square_add(rows: int, n: int, k: int) -> None:
    assert on_host(planned(array(rows, n, k), SUM)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("multiplies", [False, True])
def test_what_is_loaded_is_weighed_by_products_or_by_shifts_and_sums(*, multiplies: bool) -> None:
    plan = planned(array(1, 32, 8, multiplies=multiplies), ANY_SUM)
    assert on_host(plan) == {}
    used = {one.operation for one in plan.launches[0].instructions}
    assert ("multiply" in used) == multiplies


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (array(1, 32, 8, without=("load_acc8",)), "no load widens them, and its tiles are 32x8, not square"),
        (array(1, 32, 8, unit=None), "has no sum of two accumulators"),
        (array(1, 32, 8, unit=(2,)), "has no sum of two accumulators: valu works on 2x32 of acc at once"),
    ],
)
def test_why_a_machine_cannot_add_is_said(document: dict[str, Any], reason: str) -> None:
    plan = plan_model(SUM.SerializeToString(), parse_accelerator(document))
    assert reason in on_host(plan)["add"]


@pytest.mark.slow
def test_a_nest_that_nothing_does_is_refused_for_one_reason_with_its_layer() -> None:
    module = lower(RELU, parse_accelerator(array(8, 8, 8, unit=(2,))), "flatten")
    with pytest.raises(CompileError) as caught:
        inject(module, Target(parse_accelerator(array(8, 8, 8, unit=(3,)))))
    assert caught.value.detail.startswith("conv: no instruction does ")
    assert caught.value.detail.endswith(": no loop walks axis a of valu (3 wide)")
    assert caught.value.detail.count("valu") == 1
