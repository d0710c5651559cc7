"""The base class and the field types of a document's models."""

from typing import Annotated, ClassVar

import pydantic
from pydantic import ConfigDict, Field

Count = Annotated[int, Field(strict=True, ge=1, le=1 << 31)]
Position = Annotated[int, Field(strict=True, ge=0, le=1 << 16)]
Name = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
FieldName = Annotated[
    str,
    Field(
        max_length=129,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$",
        description="a field of the instruction, or part.field where it is a sequence of parts",
    ),
]
Label = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")]
Energy = Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)]
Expression = Annotated[str, Field(max_length=2000, description="see docs/expressions.md")]


def says_nothing(value: object) -> bool:
    """Returns whether a field is left out where a document is written: those from before it was have the same id."""
    return value is None or value is False or value in ((), {})


class DocumentPart(pydantic.BaseModel):
    """Base: immutable, and an unknown key is an error.

    Attributes:
        TIMES: names of fields that no result and no race depends on, only cycles.
        LATENCIES: names of those of them that are cycles to the first beat of a read from DRAM.
    """

    LATENCIES: ClassVar[frozenset[str]] = frozenset()
    TIMES: ClassVar[frozenset[str]] = frozenset()

    model_config = ConfigDict(frozen=True, extra="forbid")
