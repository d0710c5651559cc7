"""The proof shares no translation with the program: a wrong one is seen, whatever it is of."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import VerificationError
from accel.host.onnx_calls import read_onnx_call
from accel.host.relax_rules import RULES
from examples.graph import Graph


def model() -> onnx.ModelProto:
    """A convolution of an image whose channels fill no tile, and a float operator behind it."""
    graph = Graph("both")
    weight = graph.constant("w", np.random.default_rng(0).standard_normal((7, 5, 3, 3)).astype(np.float32))
    y = graph.node("Conv", "conv", [graph.input("x", (1, 5, 8, 8)), weight], pads=[1, 1, 1, 1])
    graph.output(graph.node("LeakyRelu", "leaky", [graph.node("Sigmoid", "gate", [y])], alpha=0.5), (1, 7, 8, 8))
    return graph.model()


def other_gate(value: Any) -> Any:
    call = read_onnx_call(value)
    return call if call is None or call.op != "Sigmoid" else replace(call, op="Tanh")


def without_signs(builder: Any, call: Any, ty: Any) -> Any:
    return builder.node("Abs", RULES["relax.permute_dims"](builder, call, ty))


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["nothing", "a node of the model", "an operator of the compiler"])
def test_a_wrong_host_step_is_found(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if wrong == "a node of the model":
        monkeypatch.setattr("accel.host.relax_translation.read_onnx_call", other_gate)
    if wrong == "an operator of the compiler":
        rules = dict(RULES) | {"relax.permute_dims": without_signs}
        monkeypatch.setattr("accel.lowering.codegen.program_linking.RULES", rules)
    data, options = model().SerializeToString(), Options(trace=False)
    if wrong == "nothing":
        assert run_model(data, load_accelerator("gemmini"), options, tmp_path).verified is True
        return
    with pytest.raises(VerificationError, match="differ; the first is"):
        run_model(data, load_accelerator("gemmini"), options, tmp_path)
