"""Options of how a model is quantised, in a job of a program."""

import pydantic
import pytest

from worker.records.job_request import JobOptions, JobRequest


@pytest.mark.parametrize(
    "options",
    [
        {"calibration_method": "minmax"},
        {"weight_scales": "channel"},
        {"zero_points": "none"},
        {"intermediates": ["x"]},
    ],
)
def test_a_program_is_quantised_already(options: dict[str, object]) -> None:
    chosen = JobOptions.model_validate(options)
    assert JobRequest(model="a" * 64, accelerator="vta", options=chosen).options == chosen
    with pytest.raises(pydantic.ValidationError, match="nothing is quantised"):
        JobRequest(program="a" * 64, options=chosen)
