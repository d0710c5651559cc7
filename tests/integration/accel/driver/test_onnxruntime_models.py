"""Networks that onnxruntime quantised, from end to end."""

from collections.abc import Callable
from itertools import cycle, product
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnxruntime.quantization import QuantFormat, QuantType

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.report.documents.report_documents import Report
from examples.resnet8 import resnet8
from tests.helpers.marking import others_all
from tests.helpers.models.onnxruntime_networks import inception, mobile
from tests.helpers.models.operator_models import SIGNED, UNSIGNED, quantised_dynamically, quantised_statically
from tests.integration.accel.frontend.operator_form.test_operator_form_integer import dynamic_network

NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet8": lambda: resnet8(batch_norm=False),
    "block": lambda: mobile(blocks=1),
    "mobile": mobile,
    "inception": inception,
}
OPTIONS: tuple[dict[str, bool], ...] = (
    {},
    {"per_channel": True},
    {"ActivationSymmetric": True},
    {"reduce_range": True},
)
TYPES = {"int8": (SIGNED, SIGNED), "uint8 and int8": (UNSIGNED, SIGNED), "uint8": (UNSIGNED, UNSIGNED)}

WAYS = [  # in one of the two forms each
    (network, place, types, form)
    for (network, place, types), form in zip(
        product(("resnet8", "mobile", "inception", "block"), range(len(OPTIONS)), TYPES), cycle(QuantFormat)
    )
]
# every time: the small network in all ways, and the others with all options
OFTEN = [way for way in WAYS if way[0] != "mobile" and list(TYPES)[way[1] % 3] == way[2]]


def run(
    folder: Path, network: str, preset: str, types: tuple[QuantType, QuantType], form: QuantFormat, **options: Any
) -> Report:
    model = quantised_statically(NETWORKS[network](), folder, types, form, **options)
    # what is tried of tilings is the same as of float models
    given = Options(trace=False, schedule="quick")
    report = run_model(model.SerializeToString(), load_accelerator(preset), given, folder)
    assert report.verified
    assert report.macs.share == 1.0
    for quality in report.quantisation:
        assert quality.cosine > 0.99
        assert quality.float_cosine is not None
        assert quality.float_cosine > 0.97
    return report


@pytest.mark.slow
def test_no_layer_of_a_quantised_network_is_left_to_the_host(tmp_path: Path) -> None:
    report = run(tmp_path, "block", "vta", (UNSIGNED, UNSIGNED), QuantFormat.QDQ)
    reasons = {op.node: op.reason for op in report.host_ops}
    padded, repeated = "padded with their zero point, as int8 -128", "int8 cannot hold come again: 1 of 1 in each group"
    assert padded in reasons["a_deep"]
    assert repeated in reasons["a_deep"]
    assert not [reason for reason in reasons.values() if "requantises" in reason]


@pytest.mark.slow
def test_the_accelerator_contracts_what_is_quantised_at_run_time(tmp_path: Path) -> None:
    model = quantised_dynamically(dynamic_network().model(), tmp_path, SIGNED)
    report = run_model(model.SerializeToString(), load_accelerator("vta"), Options(trace=False), tmp_path)
    assert report.macs.share == 1.0
    assert report.verified
    reasons = {op.op: op.reason for op in report.host_ops}
    for op in ("ConvInteger", "MatMulInteger"):
        assert "the zero point of its data, known at run time alone, is taken off its int32 result" in reasons[op]
    assert "at run time" in reasons["DynamicQuantizeLinear"]


@pytest.mark.slow
@pytest.mark.parametrize(("network", "options", "types", "form"), others_all(WAYS, OFTEN))
def test_every_way_to_quantise(network: str, options: int, types: str, form: QuantFormat, tmp_path: Path) -> None:
    run(tmp_path, network, "vta", TYPES[types], form, **OPTIONS[options])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "types", "preset"),
    others_all(
        product(("block", "mobile", "inception"), TYPES, ("vta-chisel", "gemmini", "vector")),
        [
            *[("block", "int8", "vta-chisel"), ("block", "uint8 and int8", "gemmini"), ("block", "uint8", "vector")],
            *[("mobile", "int8", "vector"), ("inception", "uint8", "gemmini")],
        ],
    ),
)
def test_every_accelerator(network: str, types: str, preset: str, tmp_path: Path) -> None:
    run(tmp_path, network, preset, TYPES[types], QuantFormat.QOperator, per_channel=types == "int8")
