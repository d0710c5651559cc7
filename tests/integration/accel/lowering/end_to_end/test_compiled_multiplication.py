"""Requantisation by multiplying in the ALU: on the accelerator from the sums to int8, and what documents lack."""

import numpy as np
import onnx
import pytest

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Operation
from accel.catalog.load_accelerator import load_accelerator
from accel.simulate.engine import simulate
from tests.helpers.marking import rest_all, rest_slow
from tests.helpers.models.build_models import build, imported
from tests.helpers.models.onnxruntime_layers import Kind, check_within_a_step, conv, dense
from tests.integration.accel.lowering.end_to_end.test_compiled_epilogues import region
from tests.reference.host import draw_inputs, run_relax

VTA = load_accelerator("vta")
BIAS = ("add_tensor", "add_product")  # by an operand, or by a contraction with it
PER_TENSOR, PER_CHANNEL = Kind(y_zero=90), Kind(y_zero=90, per_channel=True, relu=True)


def check(model: onnx.ModelProto, accelerator: Accelerator) -> None:
    """Equal to the integer graph, within a step of onnxruntime, and whatever the order of the units."""
    program, inputs = build(model, accelerator), draw_inputs(model)
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    results = [simulation.outputs[name] for name in program.outputs]
    expected = run_relax(imported(model, accelerator), *inputs.values())
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)
    check_within_a_step(results, model)
    assert simulation.hazards is not None
    assert not simulation.hazards.races


def names(model: onnx.ModelProto, accelerator: Accelerator) -> list[str]:
    found = region(model, accelerator)
    assert found.host_reason == ""
    assert found.epilogue.result == "int8"
    return [name for name, _ in found.epilogue.steps]


@pytest.mark.parametrize("preset", rest_slow(["vta", "vta-small", "vta-8", "vta-32"], keep=2))
@pytest.mark.parametrize("kind", [PER_TENSOR, PER_CHANNEL], ids=["per tensor", "per channel"])
def test_convolutions_end_in_int8(preset: str, kind: Kind) -> None:
    accelerator, model = load_accelerator(preset), conv(kind, 20, 40)
    multiply = "multiply_tensor" if kind.per_channel else "multiply"
    steps = [name for name in names(model, accelerator) if name != "shift_right"]
    assert steps[0] in BIAS
    assert steps[1:] == [multiply, "max", "min"]
    check(model, accelerator)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PER_TENSOR, PER_CHANNEL], ids=["per tensor", "per channel"])
def test_depthwise_and_dense(kind: Kind) -> None:
    for model in (conv(kind, 24, 24, groups=24), dense(kind, 5, 70, 40)):
        assert len(names(model, VTA)) >= 5
        check(model, VTA)


def test_sums_as_coarse_as_steps_are_rounded_after_the_multiplication() -> None:
    model = dense(Kind(y_zero=90, y_gain=1.5 * 74 * 40 / 30, bias=False), 5, 4, 40)
    bias, *others = names(model, VTA)
    assert bias in BIAS  # as of the sums times three quarters many are ties
    assert others == ["multiply", "add", "shift_right", "add", "max", "min"]
    check(model, VTA)


def vector(**operations: str) -> Accelerator:
    """The vector machine with more operations in its ALU."""
    whole = load_accelerator("vector")
    alu = whole.instruction("valu")
    more = [Operation(name=name, when={"op": 9 + at}, does=does) for at, (name, does) in enumerate(operations.items())]
    larger = alu.model_copy(update={"operations": (*alu.operations, *more)})
    made = tuple(larger if one == alu else one for one in whole.instructions)
    return whole.model_copy(update={"instructions": made})


TENSOR, IMMEDIATE = "DST[l] = DST[l] * SRC[l]", "DST[l] = DST[l] * imm"


@pytest.mark.parametrize("kind", [PER_TENSOR, PER_CHANNEL], ids=["per tensor", "per channel"])
def test_a_machine_multiplies_if_its_document_says_so(kind: Kind) -> None:
    accelerator, model = vector(multiply=TENSOR, multiply_immediate=IMMEDIATE), conv(kind, 8, 70)
    assert ("multiply_tensor" if kind.per_channel else "multiply") in names(model, accelerator)
    check(model, accelerator)


def test_an_immediate_that_does_not_exist_becomes_a_tensor() -> None:
    accelerator, model = vector(multiply=TENSOR), conv(PER_TENSOR, 8, 70)
    assert "multiply_tensor" in names(model, accelerator)
    check(model, accelerator)


def test_without_a_tensor_operand_channels_of_their_own_scale_are_the_hosts() -> None:
    accelerator, model = vector(multiply_immediate=IMMEDIATE), conv(PER_CHANNEL, 8, 70)
    assert "multiply" in names(conv(PER_TENSOR, 8, 70), accelerator)
    found = region(model, accelerator)
    assert found.host_reason == "Vector machine, 64 lanes has no multiplication by a tensor on its accumulators"
    check(model, accelerator)


@pytest.mark.parametrize("preset", rest_all(["vta-chisel", "mvin-mvout", "vector"], keep=2))
def test_without_a_multiplication_the_host_requantises(preset: str) -> None:
    accelerator, model = load_accelerator(preset), conv(PER_CHANNEL, 16, 16)
    assert region(model, accelerator).epilogue.steps in ((), *(((name, 0),) for name in BIAS))
    check(model, accelerator)


@pytest.mark.parametrize("preset", ["gemmini", "output-stationary"])
def test_a_zero_point_joins_the_bias_of_a_float_scale(preset: str) -> None:
    accelerator = load_accelerator(preset)
    names(conv(PER_TENSOR, 16, 16), accelerator)
    check(conv(PER_TENSOR, 16, 16), accelerator)


def test_stores_that_shift_do_so_after_a_multiplication() -> None:
    """The last steps of the epilogue join a store that does them, where a document has one."""
    store = VTA.instruction("store_out")
    field = {"name": "amount", "lsb": 120, "bits": 5}
    fields = [one.model_dump() for one in store.fields] + [field]
    shifting = type(store).model_validate(
        store.model_dump()
        | {
            "fields": fields,
            "operations": [{"name": "s", "does": "dram[b, o] = i8(clip(sram[b, o] >> amount, -128, 127))"}],
        }
    )
    accelerator = VTA.model_copy(
        update={"instructions": tuple(shifting if one == store else one for one in VTA.instructions)}
    )
    found = region(conv(PER_TENSOR, 16, 16), accelerator)
    bias, *others = [name for name, _ in found.epilogue.steps if name != "shift_right"]
    assert bias in BIAS
    assert others == ["multiply"]
    assert found.epilogue.scaling is not None
