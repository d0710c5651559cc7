"""Loops of a copy that its indices take apart, as one over the parts and one within each: a nest is then affine.

A tensor that lies otherwise in DRAM than on the chip has indices with divisions; see ``accel/lowering/kinds``.
"""

from typing import Any

from tvm import ir, sym, tirx
from tvm_ffi import structural_map

from accel.errors import CompileError
from accel.lowering.ir.affine_nest import AffineNest, constant_value, substitute
from accel.lowering.ir.tir_walk import collect


def without_divisions(nest: AffineNest) -> AffineNest:
    """Returns the nest with loops that no index divides, as far as these have whole parts; maybe as it was."""
    if not _divisions(nest.store):
        return nest
    while (cut := _cut(nest)) is not None:
        nest = _split(nest, *cut)
    return AffineNest(nest.variables, nest.extents, _simplified(nest))


def _divisions(store: tirx.BufferStore) -> list[Any]:
    """Divisions and remainders by constants in indices, inner ones first."""
    found = [*collect(store, tirx.FloorDiv), *collect(store, tirx.FloorMod)]
    return [each for each in found if constant_value(each.b) is not None]


def _cut(nest: AffineNest) -> tuple[int, int] | None:
    """A loop that a division takes apart, and how many iterations each part has."""
    for division in _divisions(nest.store):
        try:
            line = nest.line(division.a)
        except CompileError:
            continue
        by = constant_value(division.b) or 1
        for number, (step, extent) in enumerate(zip(line.strides, nest.extents, strict=True)):
            if step > 0 and by % step == 0 and step < by:
                part = by // step
                if part < extent and extent % part == 0:
                    return number, part
    return None


def _split(nest: AffineNest, number: int, part: int) -> AffineNest:
    variable, extent = nest.variables[number], nest.extents[number]
    dtype = str(variable.ty.dtype)
    outer, inner = tirx.Var(f"{variable.name}_part", dtype), tirx.Var(str(variable.name), dtype)
    made = AffineNest(
        (*nest.variables[:number], outer, inner, *nest.variables[number + 1 :]),
        (*nest.extents[:number], extent // part, part, *nest.extents[number + 1 :]),
        substitute(nest.store, {variable: outer * part + inner}),
    )
    return AffineNest(made.variables, made.extents, _simplified(made))


def _simplified(nest: AffineNest) -> tirx.BufferStore:
    analyzer = sym.Analyzer()
    for variable, extent in zip(nest.variables, nest.extents, strict=True):
        analyzer.bind(variable, ir.Range(0, extent))
    store = nest.store

    def load(value: Any) -> Any:
        return value.source[tuple(analyzer.simplify(index) for index in value.indices)]

    value = structural_map(store.value, (ir.TensorLoad, load))
    return tirx.BufferStore(store.buffer, value, [analyzer.simplify(index) for index in store.indices])
