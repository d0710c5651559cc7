"""How the units of an accelerator wait for each other."""

from typing import Annotated, Literal

from pydantic import Field

from accel.accelerator.base import Count, Model


class TokenSync(Model):
    """Units run apart, and wait only for the tokens that instructions pop from and push to queues between units."""

    kind: Annotated[Literal["tokens"], Field(description="units run apart and wait for tokens")] = "tokens"
    limit: Annotated[
        Count, Field(le=1 << 20, description="where the counter of a token queue stops, tokens", examples=[255])
    ] = 255
    carry: Annotated[
        bool, Field(strict=True, description="tokens left over from a launch are there in the next", examples=[True])
    ] = True


class HazardSync(Model):
    """An instruction waits for those before it in the program that touch the same addresses, if one of them writes.

    Units run apart: one that waits does not hold up the others.
    """

    kind: Annotated[
        Literal["hazards"],
        Field(description="units run apart, and an instruction waits for earlier ones that touch its addresses"),
    ] = "hazards"
    window: Annotated[
        Count, Field(le=4096, description="instructions that wait or run at one time, of all units", examples=[16])
    ] = 16


class InOrderSync(Model):
    """Instructions start in the order of the program, one a cycle at most.

    One whose unit is busy, or whose addresses an unfinished one touches, waits, and all behind it wait too.
    """

    kind: Annotated[Literal["in_order"], Field(description="instructions start in the order of the program")] = (
        "in_order"
    )


Synchronisation = Annotated[TokenSync | HazardSync | InOrderSync, Field(discriminator="kind")]
