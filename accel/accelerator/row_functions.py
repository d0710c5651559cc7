"""Functions of whole rows that a store computes: passes that gather statistics of a row, and the one that stores it.

Softmax is I-BERT's, in integers (Kim et al., "I-BERT: Integer-only BERT Quantization", 2021): of an accumulator q below
the largest of its row by d, ``z = d * inverse >> 16`` and ``e = ((z * ln2 - d + b)**2 + c) >> z``; what is stored is
``clip(rint(f32(e) * (f32(127) / f32(sum of e))))``, int8. The constants are in units of the accumulators.

Layer norm is of integers too, without gains or offsets: of an accumulator q of a row of n whose mean is m, what is
stored is ``clip(rint(f32(q - m) * (f32(1) / f32(s))))``, int8, of ``s = max(isqrt(sum of (q - m)**2 / n), 1)``.
Quotients of integers are cut towards 0.

What statistics are gathered of need not be what is stored (``READS``): softmax sums the exponentials of other
accumulators below the maximum of the stored ones, and a layer norm's deviation is that of others about their own mean.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from accel.accelerator.base import Count, DocumentPart, FieldName

RowFunctionName = Literal["softmax", "layer_norm"]
RowConstant = Literal["b", "c", "ln2", "inverse"]
CONSTANTS: Mapping[RowFunctionName, tuple[RowConstant, ...]] = {
    "softmax": ("ln2", "inverse", "b", "c"),
    "layer_norm": (),
}
"""The constants of each function."""

READS: Mapping[RowFunctionName, tuple[Literal["stored", "summed"], ...]] = {
    "softmax": ("stored", "summed"),
    "layer_norm": ("summed", "summed", "stored"),
}
"""What each pass of a function reads, in their order: the largest and the sum of exponentials; the mean and the
deviation of what is summed, and the mean of what is stored."""

Numbers = Annotated[dict[FieldName, int], Field(max_length=16, examples=[{"command": 5}])]


class RowPass(DocumentPart):
    """Instructions that read a row and store nothing of it: the numbers of their fields.

    Of a row that takes several instructions the ``last`` one may have other numbers than those ``before`` it.
    """

    name: Annotated[str, Field(max_length=64, description="what is gathered", examples=["largest"])]
    last: Annotated[Numbers, Field(description="of the last instruction of a row, or its only one")]
    before: Annotated[Numbers, Field(description="of those before it, where they differ")] = Field(default_factory=dict)


class RowFunction(DocumentPart):
    """A function of each row of accumulators: first the passes, each over several rows in turn, then the stores.

    A row is blocks of one element of the memory each, of which the last may have fewer scalars that count.
    """

    function: Annotated[RowFunctionName, Field(description="what is stored", examples=["layer_norm"])]
    numbers: Annotated[
        tuple[FieldName, ...],
        Field(
            min_length=1,
            max_length=4,
            description="the fields of the number under which a row's statistics are kept",
            examples=[["config.statistics"]],
        ),
    ]
    kept: Annotated[Count, Field(description="rows whose statistics are kept at a time", examples=[4])]
    constants: Annotated[
        dict[RowConstant, tuple[FieldName, ...]],
        Field(description="the fields of each constant of the function", examples=[{"ln2": ["config.q_const"]}]),
    ] = Field(default_factory=dict)
    passes: Annotated[tuple[RowPass, ...], Field(min_length=1, max_length=4, description="in their order")]
    stores: Annotated[Numbers, Field(description="the fields of the instructions that store a row")]
    ends: Annotated[
        Numbers,
        Field(description="the fields of one more pass over a row, behind which other stores find what they expect"),
    ] = Field(default_factory=dict)
    least_blocks: Annotated[
        Count, Field(description="least blocks of a row, where shorter ones are not computed so", examples=[2])
    ] = 1
    apart: Annotated[
        int,
        Field(
            strict=True,
            ge=0,
            lt=1 << 16,
            description="blocks of other rows that must come between two passes over a row",
            examples=[4],
        ),
    ] = 0

    @property
    def fields(self) -> dict[str, FieldName]:
        """The fields that it names, by their paths."""
        found = {f"numbers.{at}": name for at, name in enumerate(self.numbers)}
        for constant, names in self.constants.items():
            found |= {f"constants.{constant}.{at}": name for at, name in enumerate(names)}
        for at, each in enumerate(self.passes):
            for role, given in (("last", each.last), ("before", each.before)):
                found |= {f"passes.{at}.{role}.{name}": name for name in given}
        for role, given in (("stores", self.stores), ("ends", self.ends)):
            found |= {f"{role}.{name}": name for name in given}
        return found

    def takes(self, rows: int, blocks: int) -> bool:
        """Returns whether so many rows, taken in turn, of so many blocks each are computed as said."""
        together = min(rows, self.kept)
        return blocks >= self.least_blocks and blocks * (together - 1) >= self.apart
