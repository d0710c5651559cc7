"""The processes that help a job, if there are any."""

from dataclasses import dataclass

from accel.driver.helpers.lowering_assistant import LoweringAssistant
from accel.driver.helpers.quantisation_ahead import QuantisationAhead


@dataclass(frozen=True)
class Helpers:
    """What works beside a job.

    Attributes:
        assistant: lowers half of the model's regions.
        ahead: has begun to quantise the model with random samples.
    """

    assistant: LoweringAssistant | None = None
    ahead: QuantisationAhead | None = None


NO_HELPERS = Helpers()
