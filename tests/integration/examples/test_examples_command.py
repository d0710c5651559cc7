"""``python -m examples``, the options that it offers, and the QDQ form."""

import math
import subprocess
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from examples.networks import NETWORKS, build
from examples.qdq import to_qdq
from tests.helpers.marking import rest_all, rotated
from tests.reference.host import draw_inputs, run_onnx

TINY = ["autoencoder", "keyword_spotting", "resnet8", "visual_wake_words"]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "examples", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def window(node: onnx.NodeProto) -> int:
    """Elements that an average pool averages; 1 for other nodes."""
    sizes = [attribute.ints for attribute in node.attribute if attribute.name == "kernel_shape"]
    return math.prod(sizes[0]) if node.op_type == "AveragePool" else 1


@pytest.mark.slow
def test_no_arguments_list_the_networks() -> None:
    done = run()
    assert done.returncode == 0
    assert set(NETWORKS) <= set(done.stdout.split())


def test_every_network_has_a_name_and_a_summary() -> None:
    assert all(network.summary and name.isidentifier() for name, network in NETWORKS.items())


@pytest.mark.slow
def test_file_is_the_model_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    done = run("keyword_spotting", path, "--seed", 3, "--opset", 13, "--batch-norm", "--qdq")
    assert done.returncode == 0, done.stderr
    wanted = to_qdq(build("keyword_spotting", 3, batch_norm=True, opset=13), 3)
    assert path.read_bytes() == wanted.SerializeToString()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    rest_all(
        [
            (["lenet"], "invalid choice: 'lenet'"),
            (["conv224", "--opset", "13"], "conv224 has no option opset"),
            (["bert_tiny", "--opset", "16"], "opset 17 begins with"),
            (["light_squeezenet", "--batch-norm"], "light_squeezenet has no option batch_norm"),
            (["resnet8", "--opset", "8"], "invalid choice: 8"),
        ]
    ),
)
def test_what_cannot_be_made_is_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = run(arguments[0], tmp_path / "model.onnx", *arguments[1:])
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


def test_unknown_network_is_refused() -> None:
    with pytest.raises(ValueError, match="no network 'lenet'; there are autoencoder, "):
        build("lenet")


@pytest.mark.parametrize(
    ("name", "opset"),
    [*rotated(TINY, (9, 13, 21)), pytest.param("mobilenet_v2", 9, marks=pytest.mark.all)],
)
def test_opset_changes_no_result(name: str, opset: int) -> None:
    model = build(name, opset=opset)
    assert model.opset_import[0].version == opset
    inputs = draw_inputs(model)
    np.testing.assert_allclose(run_onnx(model, inputs)[0], run_onnx(build(name), inputs)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("batch_norm", [False, True])
def test_batch_norms_are_nodes_if_wanted(name: str, batch_norm: bool) -> None:
    operators = {node.op_type for node in build(name, batch_norm=batch_norm).graph.node}
    assert ("BatchNormalization" in operators) == batch_norm


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scales"), rotated(TINY, ("power of two", "free")))
def test_qdq_form_is_int8_and_close_to_the_float_form(name: str, scales: Literal["power of two", "free"]) -> None:
    model = build(name)
    quantised = to_qdq(model, scales=scales)
    onnx.checker.check_model(quantised, full_check=True)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in quantised.graph.initializer}
    # an average pool that sums integers leaves its divisor to the scale
    divisors = np.array([1, *map(window, model.graph.node)])
    for node in quantised.graph.node:
        if node.op_type == "QuantizeLinear":
            scale, zero = (constants[name] for name in node.input[1:])
            assert (zero.dtype, zero.shape) == (np.int8, ())
            exponents = np.log2(scale * divisors)
            eighths = 8 * exponents  # of an octave, of which layers have the same, and so shift
            assert scales == "free" or np.isclose(eighths, eighths.round(), rtol=0, atol=1e-5).any()
    pairs = [[run_onnx(form, draw_inputs(model, seed))[0] for form in (model, quantised)] for seed in range(16)]
    expected, found = (np.stack(results) for results in zip(*pairs, strict=True))
    assert np.corrcoef(expected.ravel(), found.ravel())[0, 1] > 0.75


def test_model_in_qdq_form_stays_as_it_is() -> None:
    model = build("conv224")
    assert to_qdq(model) is model
