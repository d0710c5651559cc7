"""The families of instruction sets that are installed: entry points of the group ``cyclops.isa``, by name.

A package brings one with a line in its ``pyproject.toml``, under ``[project.entry-points."cyclops.isa"]``:
``name = "module:object"``, where the object has the attributes of :class:`accel.isa.family.Family`.
"""

import functools
import inspect
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from accel.accelerator.document import Accelerator
from accel.errors import InvalidAccelerator
from accel.isa.family import ArrangesInstructions, Family, PricesExactly, PricesJoined, ReservesAddresses
from accel.region.kinds import TilingOption
from accel.region.tilings import TilingCost
from accel.util.arrays import Int64, Words

GROUP = "cyclops.isa"
_FIELD = "accelerator.family"


def family_names() -> list[str]:
    """The names of all installed families, of those too that do not load."""
    return sorted(_installed())


def family_of(accelerator: Accelerator) -> Family:
    """The family of a document.

    Raises:
        InvalidAccelerator: none is installed under its name, or it does not load.
    """
    return family(accelerator.family)


def priced_exactly(accelerator: Accelerator) -> Callable[[TilingOption], bool]:
    """Returns what says of a layer's cheapest option whether its family's estimate decides as the clock does.

    Raises:
        InvalidAccelerator: as :func:`family_of`.
    """
    found = family_of(accelerator)
    if not isinstance(found, PricesExactly):
        return lambda _option: False
    exactly = found.prices_exactly
    return lambda option: exactly(option, accelerator)


def joined_cost(accelerator: Accelerator) -> TilingCost | None:
    """Returns the price of tilings of launches that run as one; None where its family has no other than of one alone.

    Raises:
        InvalidAccelerator: as :func:`family_of`.
    """
    found = family_of(accelerator)
    return found.joined_tiling_cost if isinstance(found, PricesJoined) else None


def arrangement_of(accelerator: Accelerator) -> Callable[[Words], tuple[Words, Int64]] | None:
    """How a launch's words had better be sent, and where each of them stood; None: as they are.

    Raises:
        InvalidAccelerator: as :func:`family_of`.
    """
    found = family_of(accelerator)
    if not isinstance(found, ArrangesInstructions):
        return None
    arranged = found.arranged
    return lambda words: arranged(words, accelerator)


def reserved_bytes(accelerator: Accelerator) -> int:
    """Returns how many bytes from address 0 of DRAM on no load reaches, as it takes their addresses otherwise.

    Raises:
        InvalidAccelerator: as :func:`family_of`.
    """
    found = family_of(accelerator)
    return found.reserved_bytes if isinstance(found, ReservesAddresses) else 0


@functools.cache
def family(name: str) -> Family:
    """The family called ``name``, loaded once a process; one that does not load leaves the others as they are.

    Raises:
        InvalidAccelerator: none is installed under that name, two are, or it does not load.
    """
    found = _installed().get(name, ())
    if not found:
        known = ", ".join(family_names()) or "none"
        raise InvalidAccelerator(
            f"family: no family of instruction sets is called {name}; installed are {known}", field=_FIELD
        )
    if len(found) > 1:
        packages = " and ".join(sorted(_package(entry) for entry in found))
        raise InvalidAccelerator(f"family: {packages} both bring a family called {name}", field=_FIELD)
    return _load(found[0])


@functools.cache
def _installed() -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points by name; the same one may be found twice, as where a package is on the path twice."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, {}).setdefault(entry.value, entry)
    return {name: tuple(entries.values()) for name, entries in found.items()}


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


def required_attributes() -> list[str]:
    """Returns the names that a family has, those of the four protocols and its own, sorted."""
    names = {name for part in Family.__mro__ for name in (*inspect.get_annotations(part), *vars(part))}
    return sorted(name for name in names if not name.startswith("_"))


def _load(entry: EntryPoint) -> Family:
    try:
        loaded = entry.load()
    except Exception as error:  # whatever a stranger's module raises
        raise InvalidAccelerator(
            f"family: {entry.name}, which {_package(entry)} brings, does not load: {type(error).__name__}: {error}",
            field=_FIELD,
        ) from error
    missing = [name for name in required_attributes() if not hasattr(loaded, name)]
    if isinstance(loaded, type) or missing or loaded.name != entry.name:
        lacks = f"has no {', '.join(missing)}" if missing else "is a class or has another name"
        raise InvalidAccelerator(
            f"family: {entry.value}, which {_package(entry)} brings, is no family called {entry.name}: it {lacks}",
            field=_FIELD,
        )
    return cast(Family, loaded)
