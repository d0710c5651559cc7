"""The tables of a document, which expressions look numbers up in: ``lut(name, x)``."""

from typing import Annotated, Literal

from pydantic import Field

from accel.accelerator.base import DocumentPart, Name
from accel.accelerator.memories import DType
from accel.expression.lookup_tables import LookupTable

BYTE_VALUES = 256
Value = Annotated[float, Field(strict=True, allow_inf_nan=False)]
End = Annotated[float, Field(strict=True, ge=-1e30, le=1e30, allow_inf_nan=False)]


class ByteTable(DocumentPart):
    """A number for each of the 256 values of a byte, the least first: -128 of int8, 0 of uint8."""

    kind: Annotated[Literal["bytes"], Field(description="a number for each value of a byte")]
    name: Annotated[Name, Field(description="what expressions call it", examples=["gelu"])]
    of: Annotated[Literal["int8", "uint8"], Field(description="type of what is looked up", examples=["int8"])]
    dtype: Annotated[DType, Field(description="type of its numbers", examples=["int8"])]
    values: Annotated[
        tuple[Value, ...],
        Field(
            min_length=BYTE_VALUES,
            max_length=BYTE_VALUES,
            description="its numbers, from the least byte on",
            examples=[[*range(-BYTE_VALUES // 2, BYTE_VALUES // 2)]],
        ),
    ]

    def lookup(self) -> LookupTable:
        """Returns it as expressions know it."""
        return LookupTable(self.of, self.dtype, self.values)


class InterpolatedTable(DocumentPart):
    """A function of a float32 between ``low`` and ``high``, by lines between points that are equally far apart.

    Beyond the ends it stays what it is there.
    """

    kind: Annotated[Literal["interpolated"], Field(description="lines between points of a function")]
    name: Annotated[Name, Field(description="what expressions call it", examples=["exp"])]
    low: Annotated[End, Field(description="where the first point is", examples=[-8.0])]
    high: Annotated[End, Field(description="where the last point is", examples=[0.0])]
    values: Annotated[
        tuple[Value, ...],
        Field(min_length=2, max_length=4097, description="the function at its points", examples=[[0.0, 0.5, 1.0]]),
    ]

    def lookup(self) -> LookupTable:
        """Returns it as expressions know it."""
        return LookupTable("float32", "float32", self.values, self.low, self.high)


AnyTable = Annotated[ByteTable | InterpolatedTable, Field(discriminator="kind")]
