"""Each layer of a network that onnxruntime quantised, on onnxruntime's own inputs to it: at most a step apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.utils import Extractor
from onnxruntime.quantization import QuantFormat, QuantType

from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.integer_recovery.requantization import Requantize
from accel.frontend.legalize.qdq_form import in_qdq_form
from examples.resnet8 import resnet8
from tests.helpers.marking import pairwise
from tests.helpers.models.operator_models import SIGNED, UNSIGNED, quantised_statically
from tests.reference.host import Array, draw_inputs, run_onnx, run_relax


@dataclass(frozen=True)
class Layer:
    """What lies between quantised tensors and the next one."""

    inputs: tuple[str, ...]
    output: str


class Network:
    """A quantised model in QDQ form, and every quantised tensor as onnxruntime has it on seeded inputs."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.plain = in_qdq_form(model)
        self._makers = {output: node for node in self.plain.graph.node for output in node.output}
        self.layers = [Layer(inputs, name) for name in self._makers if (inputs := self._inputs(name))]
        names = list(dict.fromkeys(name for layer in self.layers for name in (*layer.inputs, layer.output)))
        self.values = _tensors(model, names)
        self._extractor = Extractor(onnx.shape_inference.infer_shapes(self._typed()))

    def _typed(self) -> onnx.ModelProto:
        """The model with the types of its quantised tensors stated."""
        typed = onnx.ModelProto.FromString(self.plain.SerializeToString())
        del typed.graph.value_info[:]
        for name, value in self.values.items():
            dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
            typed.graph.value_info.append(helper.make_tensor_value_info(name, dtype, value.shape))
        return typed

    def distance(self, layer: Layer, requantize: Requantize) -> int:
        """How many steps our result of a layer is from onnxruntime's, at most."""
        part = self._extractor.extract_model(list(layer.inputs), [layer.output])
        imported = import_integer_model(part, requantize)
        (result,) = run_relax(imported, *(self.values[name] for name in layer.inputs))
        expected = self.values[layer.output]
        assert result.dtype == expected.dtype
        return int(np.abs(result.astype(int) - expected.astype(int)).max())

    def _quantised(self, name: str) -> bool:
        return name in self._makers and self._makers[name].op_type == "QuantizeLinear"

    def _inputs(self, name: str) -> tuple[str, ...]:
        """The quantised tensors that a quantised one is made of; none for any other tensor, and the model's inputs."""
        if not self._quantised(name):
            return ()
        found: dict[str, None] = {}
        waiting = [*self._makers[name].input]
        while waiting:
            read = waiting.pop(0)
            if self._quantised(read):
                found[read] = None
            elif read in self._makers:
                waiting += self._makers[read].input
        return tuple(found)


def _tensors(model: onnx.ModelProto, names: Sequence[str]) -> dict[str, Array]:
    watched = onnx.ModelProto.FromString(model.SerializeToString())
    del watched.graph.output[:]
    watched.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in names)
    for value in watched.graph.output:
        value.ClearField("type")
    return dict(zip(names, run_onnx(watched, draw_inputs(model)), strict=True))


def network(folder: Path, types: tuple[QuantType, QuantType], form: QuantFormat, *, per_channel: bool) -> Network:
    return Network(quantised_statically(resnet8(batch_norm=False), folder, types, form, per_channel=per_channel))


def test_a_layer_is_within_a_step(tmp_path: Path) -> None:
    quantised = network(tmp_path, (UNSIGNED, SIGNED), QuantFormat.QDQ, per_channel=True)
    assert len(quantised.layers) >= 14
    (layer,) = [layer for layer in quantised.layers if layer.output.startswith("stack2_relu1")]
    assert quantised.distance(layer, "multiply") <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("requantize", "types", "form"),
    pairwise(
        product(
            ("shift", "scale", "multiply"),
            ((UNSIGNED, SIGNED), (SIGNED, SIGNED), (UNSIGNED, UNSIGNED)),
            QuantFormat,
        )
    ),
)
def test_every_layer_is_within_a_step(
    requantize: Requantize, types: tuple[QuantType, QuantType], form: QuantFormat, tmp_path: Path
) -> None:
    quantised = network(tmp_path, types, form, per_channel=types[1] is SIGNED)
    distances = {layer.output: quantised.distance(layer, requantize) for layer in quantised.layers}
    assert max(distances.values()) <= 1, distances
