"""One resource changed at a time: what a launch would take on an accelerator that differs in that alone.

Only time differs: the words and what they do stay as they are, so that the launches of a program that was compiled
for one document can be timed with the other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

import pydantic

from accel.accelerator.document import Accelerator
from accel.isa.decode import Decoded
from accel.isa.family import Family, TimeLaunch, Variation

T = TypeVar("T")


@dataclass(frozen=True)
class Scaled:
    """Integers of a document at JSON pointers ``fields``, twice as many or half, rounded up.

    An object of integers is scaled entry by entry. ``change`` may name the new value of the first as ``{}``.
    ``eases`` is as in :class:`accel.isa.family.Variation`.
    """

    resource: str
    change: str
    fields: Sequence[str]
    eases: Sequence[str] = ("memory",)
    half: bool = False


class OfLaunch(Generic[T]):
    """What all variations of a document need of a launch: the first that asks has it computed, and the last is kept."""

    def __init__(self, compute: Callable[[Decoded], T]) -> None:
        self._compute = compute
        self._lock = Lock()
        self._last: tuple[Decoded, T] | None = None

    def __call__(self, decoded: Decoded) -> T:
        """Returns it; a launch is known by its object."""
        with self._lock:
            if self._last is None or self._last[0] is not decoded:
                self._last = None  # two at once could be too much
                self._last = decoded, self._compute(decoded)
            return self._last[1]


def scaled_variations(
    accelerator: Accelerator,
    family: Family,
    scaled: Sequence[Scaled],
    timed: Callable[[Accelerator], TimeLaunch] | None = None,
) -> Iterator[Variation]:
    """Yields those of the changes that are one, and that the schemas of document and family take.

    Args:
        accelerator: the document.
        family: its family.
        scaled: the changes.
        timed: gives of a changed document what times a launch; None: :func:`time_of`.
    """
    for each in scaled:
        fields = _new_values(accelerator, family, each)
        changed = with_fields(accelerator, family, {field: after for field, (_, after) in fields.items()})
        if fields and changed is not None:
            first = next(after for _, after in fields.values())
            time = time_of(family, changed) if timed is None else timed(changed)
            yield Variation(each.resource, each.change.format(first), fields, time, frozenset(each.eases))


def _new_values(accelerator: Accelerator, family: Family, scaled: Scaled) -> dict[str, tuple[Any, Any]]:
    document = _parts(accelerator, family, scaled.fields)
    found: dict[str, int] = {}
    for field in scaled.fields:
        parent, key = _parent(document, field)
        value = parent[key]
        found |= {f"{field}/{key}": each for key, each in value.items()} if isinstance(value, dict) else {field: value}
    new = {field: -(-value // 2) if scaled.half else 2 * value for field, value in found.items()}
    return {field: (found[field], value) for field, value in new.items() if value != found[field]}


def with_fields(accelerator: Accelerator, family: Family, values: Mapping[str, Any]) -> Accelerator | None:
    """Returns the document with ``values`` at JSON pointers; None if the schemas of document or family refuse it."""
    parts = _parts(accelerator, family, values)
    for field, value in values.items():
        parent, key = _parent(parts, field)
        parent[key] = value
    try:
        if "parameters" in parts:
            family.parameters.model_validate(parts["parameters"])
        return Accelerator.model_validate(dict(accelerator) | parts)  # what stays is an object, and taken as it is
    except pydantic.ValidationError:
        return None


def time_of(family: Family, changed: Accelerator) -> TimeLaunch:
    """Returns how launches are timed on another document, whose instruction words are the same."""
    return lambda decoded, tokens: family.time(decoded.on(changed), tokens)


def complete(accelerator: Accelerator, family: Family) -> dict[str, Any]:
    """Returns the document as JSON, with every parameter of its family."""
    return {**accelerator.model_dump(mode="json"), "parameters": _parameters(accelerator, family)}


def _parts(accelerator: Accelerator, family: Family, fields: Iterable[str]) -> dict[str, Any]:
    """The parts of the document, as JSON, that JSON pointers lead into."""
    names = {field.split("/")[1] for field in fields}
    parts = accelerator.model_dump(mode="json", include=names - {"parameters"})
    return parts | ({"parameters": _parameters(accelerator, family)} if "parameters" in names else {})


def _parameters(accelerator: Accelerator, family: Family) -> dict[str, Any]:
    return family.parameters.model_validate(accelerator.parameters).model_dump(mode="json")


def _parent(document: Any, field: str) -> tuple[Any, Any]:
    """The object or list that holds ``field``, and the key there; names of a document have no slash."""
    *path, last = field.split("/")[1:]
    for part in path:
        document = document[int(part) if isinstance(document, list) else part]
    return document, int(last) if isinstance(document, list) else last
