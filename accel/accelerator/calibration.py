"""What a document says of its comparison with recordings of hardware."""

from typing import Annotated

from pydantic import Field

from accel.accelerator.base import DocumentPart


class CalibrationRecord(DocumentPart):
    """How near the cycles of a document came to recordings of hardware.

    It holds of the document as it was then: ``document`` is the SHA-256 of what was compared, and a document that was
    changed since has another.
    """

    document: Annotated[
        str,
        Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the document as compared, without names and this"),
    ]
    recordings: Annotated[
        str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the recordings' index and streams")
    ]
    exact: Annotated[int, Field(strict=True, ge=0, description="runs with the recorded cycles")]
    of: Annotated[int, Field(strict=True, ge=1, description="runs compared: streams, each at each latency")]
    median_percent: Annotated[float, Field(ge=0, allow_inf_nan=False, description="the middle error, percent")]
    p90_percent: Annotated[
        float, Field(ge=0, allow_inf_nan=False, description="the error that 90 % of the runs do not exceed, percent")
    ]
    worst_percent: Annotated[float, Field(ge=0, allow_inf_nan=False, description="the largest error, percent")]
