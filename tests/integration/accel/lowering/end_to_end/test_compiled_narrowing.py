"""Accumulators that leave through other stores than the presets', and what is said of stores that nearly would do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.errors import CompileError
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.lowering.ir.function_attributes import HOST_REASON, region_of
from accel.region.epilogue import Shifting
from accel.region.kinds import Region
from accel.simulate.engine import simulate
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.marking import rest_slow
from tests.helpers.models.additions import addition
from tests.helpers.models.build_models import build, imported, lower
from tests.reference import dyadic
from tests.reference.host import draw_inputs, run_relax

CONV = conv_model(Conv(8, 16, 6, 6, relu=True))
PLAIN = dense_model(Dense(5, 40, 21))
ADDITION = addition()
CLIP, RELU = "i8(clip({}, -128, 127))", "i8(clip({}, 0, 127))"
SHIFT, ROUND = "sram[m, n] >> shift", "(sram[m, n] + (1 << (shift - 1))) >> shift"


def changed(preset: str, change: Callable[[dict[str, Any]], None]) -> Accelerator:
    document = load_accelerator(preset).model_dump(mode="json", exclude_none=True)
    change(document)
    return parse_accelerator(document)


def instruction(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in document["instructions"] if one["name"] == name)
    return found


def storing(*does: str, field: str = "shift") -> Accelerator:
    """The output-stationary array with another store of int8, and none of int32."""

    def change(document: dict[str, Any]) -> None:
        store = instruction(document, "store_scaled")
        scale = next(one for one in store["fields"] if one["name"] == "scale")
        scale |= {"name": field, "bits": 5, "type": "unsigned"} if field == "shift" else {}
        store["operations"] = [
            {"name": f"s{mode}", "when": {"relu": mode}, "does": f"dram[m, n] = {value}"}
            for mode, value in enumerate(does)
        ]
        document["instructions"].remove(instruction(document, "store_c"))

    return changed("output-stationary", change)


def regions(model: onnx.ModelProto, accelerator: Accelerator) -> list[Region]:
    functions = lower(model, accelerator, "partition").functions.values()
    return [found for function in functions if (found := region_of(function)) is not None]


def reasons(model: onnx.ModelProto, accelerator: Accelerator) -> list[str]:
    functions: list[Any] = list(lower(model, accelerator, "partition").functions.values())
    return [str(f.attrs[HOST_REASON]) for f in functions if f.attrs is not None and HOST_REASON in f.attrs]


def result(model: onnx.ModelProto, accelerator: Accelerator) -> np.ndarray[Any, Any]:
    program, inputs = build(model, accelerator), draw_inputs(model)
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)), timing=False)
    return np.asarray(simulation.outputs[program.outputs[0]])


@pytest.mark.slow
@pytest.mark.parametrize(("value", "rounds"), [(SHIFT, False), (ROUND, True)])
@pytest.mark.parametrize("name", rest_slow(["relu", "plain"]))
def test_a_store_that_shifts_requantises(value: str, name: str, *, rounds: bool) -> None:
    """The rounding of one that only shifts is in the bias."""
    model = {"relu": CONV, "plain": PLAIN}[name]
    accelerator = storing(CLIP.format(value), RELU.format(value))
    (region,) = regions(model, accelerator)
    scaling = region.epilogue.scaling
    assert isinstance(scaling, Shifting)
    assert (scaling.rounds, scaling.low, region.host_reason) == (rounds, 0 if name == "relu" else -128, "")
    wanted = dyadic.run(model, draw_inputs(model), balances=True)[model.graph.output[0].name]
    np.testing.assert_array_equal(result(model, accelerator), wanted)


@pytest.mark.slow
def test_the_rounding_of_an_addition_is_in_what_accumulators_begin_as() -> None:
    """Nothing adds a number, and the store only shifts."""

    def change(document: dict[str, Any]) -> None:
        a, b, _ = document["memories"]
        a |= {"dtype": "int8", "shape": [4, 4]}
        b["shape"] = [4, 4]
        instruction(document, "mvin_a")["dram_dtype"] = "int8"
        store = instruction(document, "mvout")
        store["fields"].append({"name": "shift", "lsb": 96, "bits": 5})
        store["dram_dtype"], store["operations"] = "int8", [{"name": "s", "does": f"dram[m, n] = {CLIP.format(SHIFT)}"}]

    accelerator = changed("mvin-mvout", change)
    (region,) = regions(ADDITION, accelerator)
    assert (region.shape.kind, region.epilogue.start, region.epilogue.steps) == ("addition", "bias", ())
    (wanted,) = run_relax(imported(ADDITION, accelerator), *draw_inputs(ADDITION).values())
    np.testing.assert_array_equal(result(ADDITION, accelerator), wanted)


@pytest.mark.parametrize(
    ("value", "difference"),
    [
        ("i8(clip(rint(f32(sram[m, n]) * scale), -127, 127))", "clips to -127 and 127, not to -128 and 127"),
        ("i8(rint(f32(sram[m, n]) * scale))", "does not clip"),
        ("i8(clip(f32(sram[m, n]) * scale, -128, 127))", "does not round"),
    ],
)
def test_the_nearest_store_is_named(value: str, difference: str) -> None:
    relu = "i8(clip(rint(f32(sram[m, n]) * scale), 0, 127))"
    (reason,) = reasons(PLAIN, storing(value, relu, field="scale"))
    assert f"store_scaled does dram[m, n] = {value}, which {difference}" in reason


def unsigned(document: dict[str, Any]) -> None:
    """Data are uint8 in memory."""
    document["memories"][0]["dtype"] = instruction(document, "load_x")["dram_dtype"] = "uint8"


@pytest.mark.slow
@pytest.mark.parametrize("bias", [True, False])
def test_unsigned_data_need_a_bias_where_accumulators_begin_at_zero(bias: bool) -> None:
    model, accelerator = dense_model(Dense(6, 40, 21, bias=bias)), changed("vector", unsigned)
    (region,) = regions(model, accelerator)
    assert (region.epilogue.start, region.epilogue.has_bias) == ("zero", True)
    wanted = dyadic.run(model, draw_inputs(model), balances=True)[model.graph.output[0].name]
    np.testing.assert_array_equal(result(model, accelerator), wanted)


def without_bias(document: dict[str, Any]) -> None:
    """Nothing loads accumulators, and nothing adds to them."""
    for name in ("load_acc", "load_acc8", "valu", "store_acc8"):
        document["instructions"].remove(instruction(document, name))


@pytest.mark.parametrize("model", [CONV, PLAIN], ids=["conv", "dense"])
def test_the_host_adds_the_bias_where_the_accelerator_cannot(model: onnx.ModelProto) -> None:
    accelerator = changed("vector", without_bias)
    (region,) = regions(model, accelerator)
    assert (region.epilogue.start, region.epilogue.has_bias, region.epilogue.result) == ("zero", False, "int32")
    (wanted,) = run_relax(import_integer_model(model), *draw_inputs(model).values())
    np.testing.assert_array_equal(result(model, accelerator), wanted)


def test_zeros_take_nothing_away() -> None:
    """Accumulators begin as the bias where they could also begin at zero, but then nothing adds it."""

    def change(document: dict[str, Any]) -> None:
        document["instructions"].remove(instruction(document, "valu"))

    (region,) = regions(PLAIN, changed("vector", change))
    assert region.epilogue.start == "bias"


def test_a_field_that_is_too_narrow_is_named() -> None:
    document = load_accelerator("output-stationary").model_dump(mode="json", exclude_none=True)
    load = instruction(document, "load_a")
    next(one for one in load["fields"] if one["name"] == "dram")["bits"] = 6
    with pytest.raises(CompileError, match=r"field dram of load_a has 6 bits; \d+ needs \d+") as caught:
        build(PLAIN, Accelerator.model_validate(document))
    assert caught.value.field == "accelerator.instructions.0.fields.2.bits"
