"""Tensors in DRAM where they lie: parameters of a function that are views of buffers of other shapes.

The view is put into every index, before and after the schedule alike, so that no kind of region knows of it: loads and
stores get other addresses and strides.
"""

import math
from collections.abc import Sequence
from typing import Any

from tvm import ir, tirx
from tvm.ir import TensorLoad, TensorRegion
from tvm_ffi import structural_mutate

from accel.region.affine_view import AffineView


def in_views(function: tirx.PrimFunc, views: Sequence[AffineView | None]) -> tirx.PrimFunc:
    """Returns the function over the buffers that ``views`` say, parameter by parameter; None where one is its own.

    So is one of the same elements in the same order, whose other dimensions might cut through tiles.
    """
    viewed = {
        parameter: view
        for parameter, view in zip(function.params, views, strict=False)
        if view is not None and not view.is_plain
    }
    if not viewed:
        return function
    buffers = {
        parameter: tirx.decl_buffer(view.shape or (1,), str(parameter.dtype), str(parameter.name))
        for parameter, view in viewed.items()
    }

    def load(value: TensorLoad, mutator: Any) -> Any:
        if value.source not in buffers:
            return mutator.default_mutate(value)
        return buffers[value.source][tuple(_indices(viewed[value.source], value.indices))]

    def store(statement: tirx.BufferStore, mutator: Any) -> Any:
        if statement.buffer not in buffers:
            return mutator.default_mutate(statement)
        indices = _indices(viewed[statement.buffer], statement.indices)
        return tirx.BufferStore(buffers[statement.buffer], mutator.mutate(statement.value), indices)

    def part(given: TensorRegion, _mutator: Any) -> TensorRegion:
        if given.source not in buffers:
            return given
        buffer = buffers[given.source]  # all of it: what of that is touched nobody asks
        return tirx.BufferRegion(buffer, [ir.Range.from_min_extent(0, extent) for extent in buffer.shape])

    rules = [(TensorLoad, load), (tirx.BufferStore, store), (TensorRegion, part)]
    parameters = [buffers.get(each, each) for each in function.params]
    return tirx.PrimFunc(parameters, structural_mutate(function.body, rules), function.ret_type, function.attrs)


def _indices(view: AffineView, given: Sequence[Any]) -> list[Any]:
    """Indices into the buffer; a tensor or a buffer without dimensions is a parameter of one element."""
    atoms = []
    for extents, index in zip(view.atoms, given if view.atoms else (), strict=True):
        for place, extent in enumerate(extents):
            inner = math.prod(extents[place + 1 :])
            atom = index if inner == 1 else tirx.floordiv(index, inner)
            atoms.append(atom if place == 0 else tirx.floormod(atom, extent))
    found = []
    for first, steps in zip(view.first, view.steps, strict=True):
        index = tirx.const(first, "int32")
        for step, atom in zip(steps, atoms, strict=True):
            index = index + atom * step if step else index
        found.append(index)
    return found or [tirx.const(0, "int32")]
