"""A compiled region, as a linker takes it, and as bytes: arrays behind a header of JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter
from tvm import ir, tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.field_bits import WORD_BITS
from accel.lowering.codegen.instruction_encoding import encode
from accel.lowering.codegen.microop_tables import MicroOpTable, load_tables
from accel.lowering.codegen.relocatable_code import CallSite, CheckedField, FieldOverflow, RegionCode, Relocation
from accel.lowering.ir.function_attributes import (
    ADDRESSES,
    DEPTHS,
    DRAM_UNITS,
    MICROOPS,
    SIZE_PARAMETERS,
    Depths,
    MemorySize,
    ScratchpadBuffer,
    lie_in,
    load_buffers,
    load_depths,
    load_sizes,
    region_functions,
)
from accel.util.arrays import Int32, Words

_LENGTH = 8  # bytes of the header's length


@dataclass(frozen=True)
class RegionObject:
    """A region's code, bytes a unit of each tensor's DRAM address, its tables of micro-ops, and its buffers on chip.

    The code takes the addresses of the tensors, in their units, after them that of the tables, if there are any, and
    then ``sizes`` of memories. In memories of ``depths`` the buffers lie as they do.
    """

    code: RegionCode
    units: tuple[int, ...]
    tables: tuple[MicroOpTable, ...]
    buffers: tuple[ScratchpadBuffer, ...]
    sizes: tuple[MemorySize, ...]
    depths: Mapping[str, Depths]

    def link(self, bases: Sequence[int], accelerator: Accelerator) -> tuple[Words, Int32]:
        """Returns what :meth:`RegionCode.link` does, for tensors and tables at ``bases``.

        Raises:
            CompileError: a value that its field cannot hold; the message names both.
        """
        return self.code.link([*bases, *(size.of(accelerator) for size in self.sizes)], accelerator)

    def is_for(self, accelerator: Accelerator) -> bool:
        """Returns whether the buffers lie so in the memories of ``accelerator``, and its words are as wide.

        All else that lowering reads of a document is in the key of what is kept.
        """
        wide = self.code.words.shape[1] * WORD_BITS
        return wide == accelerator.word_bits and lie_in(self.buffers, self.depths, accelerator)

    def placed_buffers(self, accelerator: Accelerator) -> tuple[ScratchpadBuffer, ...]:
        """Returns the buffers with numbers alone, as they lie in the memories of ``accelerator``."""
        return tuple(buffer.placed(accelerator) for buffer in self.buffers)


def region_object(function: tirx.PrimFunc, accelerator: Accelerator) -> RegionObject:
    """The object of an allocated function.

    Raises:
        CompileError: as ``encode`` does.
    """
    units = tuple(json.loads(str(function.attrs[DRAM_UNITS])))
    tables, buffers = load_tables(str(function.attrs[MICROOPS])), load_buffers(str(function.attrs[ADDRESSES]))
    sizes, depths = load_sizes(str(function.attrs[SIZE_PARAMETERS])), load_depths(str(function.attrs[DEPTHS]))
    return RegionObject(encode(function, accelerator), units, tuple(tables), buffers, sizes, depths)


@dataclass(frozen=True)
class LoweredModule:
    """A module whose ``main`` launches regions, and the objects of these by name."""

    module: ir.IRModule
    objects: Mapping[str, RegionObject]

    @classmethod
    def of(cls, module: ir.IRModule, accelerator: Accelerator) -> "LoweredModule":
        """An allocated module.

        Raises:
            CompileError: as ``encode`` does.
        """
        regions = region_functions(module).items()
        return cls(
            module, {str(variable.name_hint): region_object(region, accelerator) for variable, region in regions}
        )


@dataclass(frozen=True)
class _Relocated:
    field: int
    count: int
    multiples: tuple[int, ...]


@dataclass(frozen=True)
class _Header:
    """All of an object but its arrays, which follow in this order: words, origin, rows and values of relocations."""

    count: int
    words_each: int
    sites: tuple[CallSite, ...]
    fields: tuple[CheckedField, ...]
    relocations: tuple[_Relocated, ...]
    overflows: tuple[FieldOverflow, ...]
    units: tuple[int, ...]
    tables: tuple[MicroOpTable, ...]
    buffers: tuple[ScratchpadBuffer, ...]
    sizes: tuple[MemorySize, ...]
    depths: dict[str, Depths]


_HEADER = TypeAdapter(_Header)


def dump_object(region: RegionObject) -> bytes:
    """The object as bytes."""
    code = region.code
    header = _Header(
        count=len(code.words),
        words_each=code.words.shape[1],
        sites=code.sites,
        fields=code.fields,
        relocations=tuple(_Relocated(one.field, len(one.rows), one.multiples) for one in code.relocations),
        overflows=code.overflows,
        units=region.units,
        tables=region.tables,
        buffers=region.buffers,
        sizes=region.sizes,
        depths=dict(region.depths),
    )
    text = _HEADER.dump_json(header)
    arrays = [code.words.astype("<u8"), code.origin.astype("<i4")]
    arrays += [array.astype("<i8") for one in code.relocations for array in (one.rows, one.values)]
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *(array.tobytes() for array in arrays)])


def load_object(data: bytes) -> RegionObject:
    """The inverse of ``dump_object``.

    Raises:
        ValueError: these are not the bytes of an object.
    """
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    header = _HEADER.validate_json(data[_LENGTH:end])
    arrays = _Arrays(data, end)
    words = arrays.next("<u8", header.count * header.words_each).reshape(header.count, header.words_each)
    origin = arrays.next("<i4", header.count)
    relocations = tuple(
        Relocation(one.field, arrays.next("<i8", one.count), arrays.next("<i8", one.count), one.multiples)
        for one in header.relocations
    )
    code = RegionCode(words, origin, header.sites, header.fields, relocations, header.overflows)
    _check(code)
    return RegionObject(code, header.units, header.tables, header.buffers, header.sizes, header.depths)


class _Arrays:
    """Arrays one behind the other."""

    def __init__(self, data: bytes, begin: int) -> None:
        self._data = data
        self._at = begin

    def next(self, dtype: str, count: int) -> npt.NDArray[Any]:
        array = np.frombuffer(self._data, dtype, count, self._at)
        self._at += array.nbytes
        return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check(code: RegionCode) -> None:
    """Raise ValueError for an index that points nowhere."""
    one_past: list[tuple[npt.NDArray[Any], int]] = [(code.origin, len(code.sites))]
    one_past += [(one.rows, len(code.words)) for one in code.relocations]
    fields = [one.field for one in code.relocations] + [one.field for one in code.overflows]
    one_past.append((np.array(fields, np.int32), len(code.fields)))
    for indices, end in one_past:
        if indices.size and not 0 <= indices.min() <= indices.max() < end:
            raise ValueError("an index of the object points nowhere")
