"""Micro-op tables: what each entry of a hardware-looped instruction addresses, as a small description.

The description travels in the function's attributes and is expanded to words by numpy at emission.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, MicroOps


@dataclass(frozen=True)
class OperandWalk:
    """One operand's address: ``base``, its step from one context to the next, and its step along each loop."""

    base: int
    contexts: tuple[int, ...]
    loops: tuple[int, ...]


@dataclass(frozen=True)
class MicroOpTable:
    """Entries ``[begin, begin + sets * length)``: one set for each combination of contexts, in row-major order."""

    begin: int
    contexts: tuple[int, ...]
    extents: tuple[int, ...]
    walks: dict[str, OperandWalk]  # by micro-op field

    @property
    def length(self) -> int:
        """Micro-ops that one instruction walks."""
        return int(np.prod(self.extents, dtype=np.int64))

    @property
    def size(self) -> int:
        """Entries of all sets."""
        return self.length * int(np.prod(self.contexts, dtype=np.int64))


def microops_of(accelerator: Accelerator) -> MicroOps | None:
    """The table of micro-ops that its instructions walk, if they do."""
    computes = [instruction for instruction in accelerator.instructions if isinstance(instruction, Compute)]
    return next((compute.microops for compute in computes if compute.microops is not None), None)


_TABLES = TypeAdapter(list[MicroOpTable])


def dump_tables(tables: Sequence[MicroOpTable]) -> str:
    """Tables as JSON, for a function's attribute."""
    return _TABLES.dump_json(list(tables)).decode()


def load_tables(text: str) -> list[MicroOpTable]:
    """The inverse of ``dump_tables``."""
    return _TABLES.validate_json(text)


def expand_tables(tables: Sequence[MicroOpTable], microops: MicroOps) -> npt.NDArray[np.uint32]:
    """The memory image of all tables, one 32-bit micro-op an entry."""
    entries = max((table.begin + table.size for table in tables), default=0)
    image = np.zeros(entries, dtype=np.uint32)
    for table in tables:
        words = np.zeros(table.size, dtype=np.uint32)
        for field in microops.fields:
            if (walk := table.walks.get(field.name)) is not None:
                words |= _addresses(walk, table) << np.uint32(field.lsb)
        image[table.begin : table.begin + table.size] = words
    return image


def _addresses(walk: OperandWalk, table: MicroOpTable) -> npt.NDArray[np.uint32]:
    address = np.array(walk.base, dtype=np.int64)
    for extent, step in zip((*table.contexts, *table.extents), (*walk.contexts, *walk.loops), strict=True):
        address = address[..., None] + np.arange(extent, dtype=np.int64) * step
    return address.reshape(-1).astype(np.uint32)
