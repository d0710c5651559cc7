"""Values of tensors, sample by sample, against those of a session of their own for each."""

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from accel.errors import InvalidModel
from accel.frontend.quantize.sample_runs import count_values
from tests.reference.host import Array


def _model() -> onnx.ModelProto:
    """Twice the input, and the places of what is positive: of another number in each sample."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("NonZero", ["positive"], ["integers"]),
        helper.make_node("Cast", ["integers"], ["places"], to=TensorProto.FLOAT),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [7, 5])
    y = helper.make_tensor_value_info("places", TensorProto.FLOAT, [2, "n"])
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("names", [("x", "twice"), ("twice", "places")])
@pytest.mark.parametrize("count", [1, 5])
def test_values_come_sample_by_sample(count: int, names: tuple[str, ...]) -> None:
    """It would catch results that lie where those of another sample are counted, or that do not fit where they lie."""
    random, model = np.random.default_rng(count), _model()
    samples = [{"x": random.standard_normal((7, 5)).astype(np.float32)} for _ in range(count)]
    found: dict[str, list[Array]] = {name: [] for name in names}

    def keep(name: str, values: Sequence[Array]) -> None:
        found[name] += [value.copy() for value in values]

    count_values(model, names, samples, keep)
    model.graph.output.append(helper.make_tensor_value_info("twice", TensorProto.FLOAT, [7, 5]))
    running = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for at, sample in enumerate(samples):
        expected = sample | dict(zip(["places", "twice"], running.run(None, sample), strict=True))
        for name in names:
            np.testing.assert_array_equal(found[name][at], expected[name])
    assert {len(values) for values in found.values()} == {count}


def test_what_counting_raises_is_raised() -> None:
    """It would catch an error that a thread keeps to itself."""

    def refuse(name: str, values: Sequence[Array]) -> None:
        raise InvalidModel(f"{len(values)} of {name}", field="model")

    with pytest.raises(InvalidModel, match="2 of twice"):
        count_values(_model(), ["twice"], [{"x": np.zeros((7, 5), np.float32)}] * 3, refuse)
