"""How far a run is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Stage ``step`` of ``total``, counted from 1, has begun."""

    stage: str
    step: int
    total: int
