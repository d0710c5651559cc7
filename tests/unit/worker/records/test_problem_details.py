import json
from typing import get_args

from accel.errors import Diagnosis, InvalidModel, SimulationError
from worker.records.problem_details import problem_of


def test_only_what_is_known_is_there() -> None:
    document = json.loads(problem_of(InvalidModel("no", field="model")).model_dump_json())
    assert document == {
        "type": "/problems/invalid-model",
        "title": InvalidModel.title,
        "detail": "no",
        "field": "model",
    }


def test_a_diagnosis_is_told_with_its_instruction() -> None:
    for kind in get_args(Diagnosis):
        document = problem_of(SimulationError("no", kind=kind, instruction=0)).model_dump(mode="json")
        assert (document["diagnosis"], document["instruction"]) == (kind, 0)
    assert "instruction" not in problem_of(SimulationError("no")).model_dump(mode="json")
