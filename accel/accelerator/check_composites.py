"""The composites of a document: those that the front end forms, each once."""

from accel.accelerator.document import Accelerator, Operator
from accel.accelerator.require import require

_ENDINGS: tuple[tuple[Operator, ...], ...] = ((), ("bias",), ("requantize", "clip"), ("bias", "requantize", "clip"))


def check_composites(accelerator: Accelerator) -> None:
    """Refuse composites that no layer is, as operators follow the first in one order, and any that is there twice.

    Raises:
        InvalidAccelerator: ``field`` is the path of the operators.
    """
    seen: dict[tuple[Operator, ...], str] = {}
    known = "; ".join(", ".join(ending) for ending in _ENDINGS if ending)
    for index, composite in enumerate(accelerator.composites):
        at = f"composites.{index}.operators"
        first, *others = composite.operators
        found = f"{', '.join(others)} after {first}; what may follow is nothing, or: {known}"
        require(tuple(others) in _ENDINGS, at, found)
        again = f"these are the operators of {seen.get(composite.operators)}; each composite needs others"
        require(composite.operators not in seen, at, again)
        seen[composite.operators] = composite.name
