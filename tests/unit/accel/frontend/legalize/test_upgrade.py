"""Models of old opsets mean after the upgrade what they meant before."""

from collections.abc import Iterator

import numpy as np
import onnx
import pytest

from accel.errors import InvalidModel, UnsupportedOperator
from accel.frontend.legalize.opset_upgrade import CHANGES, OPSET, upgrade
from accel.frontend.onnx_model.model_limits import LIMITS, OPSETS
from accel.frontend.onnx_model.node_origins import origins_of
from accel.frontend.onnx_model.shape_inference import infer_shapes, tensor_shapes
from accel.frontend.read.load_model import load_model
from accel.frontend.read.model_parser import parse_model
from tests.helpers.models.exporter_habits import HABITS, IMAGE, ROWS, Habit, f32, i64, layer, one
from tests.reference.host import draw_inputs, run_onnx

MORE = {
    "greatest": Habit(ROWS, (layer("TopK", "x", "y at", k=3),), (9,)),
    "greatest by an input": Habit(ROWS, (layer("TopK", "x k", "y at"),), (10,), {"k": i64(3)}),
    "hardmax, flattening": one((2, 3, 4), "Hardmax", opsets=(9, 11)),
}
OLD = [(n, o) for n, habit in (HABITS | MORE).items() for o in habit.opsets if o < OPSET]


@pytest.mark.parametrize(("name", "opset"), OLD, ids=[f"{name}-{opset}" for name, opset in OLD])
def test_it_computes_the_same(name: str, opset: int) -> None:
    model = (HABITS | MORE)[name].model(opset)
    upgraded = parse_model(model.SerializeToString()).model
    upgrade(upgraded, tensor_shapes(upgraded, infer_shapes(upgraded), LIMITS))
    onnx.checker.check_model(load_model(model.SerializeToString()).model)
    assert upgraded.opset_import[0].version == OPSET
    inputs = draw_inputs(model)
    np.testing.assert_array_equal(run_onnx(upgraded, inputs)[0], run_onnx(model, inputs)[0])


def test_a_newer_model_stays_as_it_is() -> None:
    model = HABITS["softmax, last axis"].model(OPSET)
    before = model.SerializeToString()
    upgrade(model, {})
    assert model.SerializeToString() == before


def changed() -> Iterator[tuple[str, int]]:
    """The operators that the specification changed for good, and the last opset of the old form."""
    schemas = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}
    for opset in range(OPSETS.start, OPSET):
        for name in sorted(schemas):
            try:
                old, new = onnx.defs.get_schema(name, opset), onnx.defs.get_schema(name, OPSET)
            except onnx.defs.SchemaError:
                continue
            kept = set(old.attributes) & set(new.attributes)
            differs = any(old.attributes[a].default_value != new.attributes[a].default_value for a in kept)
            inputs = [[formal.name for formal in schema.inputs] for schema in (old, new)]
            moved = inputs[1][: len(inputs[0])] != inputs[0]
            gone = set(old.attributes) - set(new.attributes) or (new.deprecated and not old.deprecated)
            if gone or differs or moved:
                yield name, opset


def test_every_operator_that_changed_has_a_rule() -> None:
    assert set(changed()) == {
        (name, opset) for name, (last, _) in CHANGES.items() for opset in range(_since(name), last + 1)
    }


def _since(name: str) -> int:
    return max(OPSETS.start, min(s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == name))


def test_made_nodes_are_called_after_the_one_they_came_from_and_belong_to_it() -> None:
    model = HABITS["softmax, flattening"].model(9)
    nodes = load_model(model.SerializeToString()).model.graph.node
    assert [node.name for node in nodes] == ["Softmax.0_flatten", "Softmax.0", "Softmax.0_restore"]
    assert all(origins_of(node) == {"Softmax.0": "Softmax"} for node in nodes)
    assert nodes[-1].output[0] == "y"


def test_a_name_that_is_taken_is_not_given_again() -> None:
    habit = Habit(ROWS, (layer("Clip", "x", "Clip.0_min", min=0.0), layer("Neg", "Clip.0_min")), (9,))
    loaded = load_model(habit.model(9).SerializeToString()).model
    assert [tensor.name for tensor in loaded.graph.initializer] == ["Clip.0_min_", "Clip.0_max"]


def test_an_axis_that_is_not_there_is_refused() -> None:
    model = one(ROWS, "Softmax", axis=5).model(9)
    with pytest.raises(InvalidModel) as caught:
        load_model(model.SerializeToString())
    assert caught.value.field == "node:Softmax.0"


def test_growing_and_shrinking_at_once_is_refused() -> None:
    model = one(IMAGE, "Resize", "x c_s", c_s=f32(1, 1, 2, 0.5)).model(10)
    with pytest.raises(UnsupportedOperator, match="grows one axis"):
        load_model(model.SerializeToString())
