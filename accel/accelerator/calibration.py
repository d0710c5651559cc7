"""What a document says of its comparison with recordings of hardware."""

from typing import Annotated

from pydantic import Field

from accel.accelerator.base import DocumentPart

_Percent = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class CalibrationRecord(DocumentPart):
    """How near the cycles of a document came to recordings of hardware.

    It holds of the document as it was then: ``document`` is the SHA-256 of what was compared, and a document that was
    changed since has another.
    """

    document: Annotated[
        str,
        Field(
            pattern=r"^[0-9a-f]{64}$",
            description="SHA-256 of the document as compared, without names and this",
            examples=["0" * 64],
        ),
    ]
    recordings: Annotated[
        str,
        Field(
            pattern=r"^[0-9a-f]{64}$",
            description="SHA-256 of the recordings' index and streams",
            examples=["0" * 64],
        ),
    ]
    exact: Annotated[int, Field(strict=True, ge=0, description="runs with the recorded cycles", examples=[90])]
    of: Annotated[
        int, Field(strict=True, ge=1, description="runs compared: streams, each at each latency", examples=[95])
    ]
    median_percent: Annotated[_Percent, Field(description="the middle error, percent", examples=[0.0])]
    p90_percent: Annotated[
        _Percent, Field(description="the error that 90 % of the runs do not exceed, percent", examples=[0.5])
    ]
    worst_percent: Annotated[_Percent, Field(description="the largest error, percent", examples=[2.5])]
