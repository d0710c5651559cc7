"""How many inputs a job's stream has."""

import pydantic
import pytest

from worker.records.job_request import JobOptions, JobRequest


@pytest.mark.parametrize("inputs", [0, -1, 65, 2.5, "2", True, None])
def test_other_numbers_of_inputs_are_refused(inputs: object) -> None:
    with pytest.raises(pydantic.ValidationError) as refused:
        JobRequest.model_validate({"model": "a" * 64, "accelerator": "vta", "options": {"repeat": inputs}})
    assert [error["loc"] for error in refused.value.errors()] == [("options", "repeat")]


def test_one_input_is_as_without_the_option() -> None:
    """Catches ids of results, and of reports, that change for jobs which ask for no stream."""
    assert JobOptions(repeat=1).model_dump(mode="json") == JobOptions().model_dump(mode="json")
    assert "repeat" not in JobOptions().model_dump(mode="json")
    assert JobOptions(repeat=2).model_dump(mode="json")["repeat"] == 2


def test_a_program_is_run_for_its_own_input() -> None:
    with pytest.raises(pydantic.ValidationError, match="its own input"):
        JobRequest(program="a" * 64, options=JobOptions(repeat=2))
