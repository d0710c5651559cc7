"""Bounds on compiled host steps, which make any graph safe to run.

An operator of Relax trusts its tensors: an index that lies outside reads or writes elsewhere in the process, and an
integer divided by zero ends it. Here every access that cannot be shown to lie in its buffer is moved to the nearest
element that does, and every division is made total. Results change only where there was none.
"""

import math
from typing import Any

import numpy as np
import tvm
import tvm.s_tir
from tvm import ir, tirx
from tvm.sym import Analyzer
from tvm_ffi import structural_mutate

from accel.errors import SimulationError

_STORES = (1 << 38) / 300  # a second, about
MOST_SECONDS = 300.0
_MOST_BYTES = 1 << 32  # of one temporary
_FAR = 1 << 62


def guard(module: ir.IRModule, seconds: float = MOST_SECONDS) -> ir.IRModule:
    """Returns the module with its TIR functions made safe.

    Args:
        module: what to run.
        seconds: about how long it may run.

    Raises:
        SimulationError: it needs more work or memory than the limits, which is known before it runs.
    """
    result = ir.IRModule(dict(module.functions.items()), attrs=module.attrs)
    work = 0
    for variable, function in module.functions.items():
        if isinstance(function, tirx.PrimFunc):
            guarded = _Guard()
            result.update_func(variable, guarded.function(function))
            work += guarded.work
            if guarded.largest > _MOST_BYTES:
                raise SimulationError(
                    f"a host step's {variable.name_hint} takes {guarded.largest} bytes at once; the limit is "
                    f"{_MOST_BYTES}",
                    kind="work-limit",
                )
    most = int(_STORES * min(seconds, MOST_SECONDS))
    if work > most:
        raise SimulationError(f"a host step takes {work} steps of work; the limit is {most}", kind="work-limit")
    return result


class _Guard:
    """One function: ``work`` counts the stores it makes, ``largest`` is the largest temporary, bytes."""

    def __init__(self) -> None:
        self.work = 0
        self.largest = 0
        self._times = 1
        self._analyzer = Analyzer()

    def function(self, function: tirx.PrimFunc) -> tirx.PrimFunc:
        rules = [
            (tirx.For, self._loop),
            (tvm.s_tir.SBlock, self._block),
            (ir.Call, self._call),
            (ir.TensorLoad, self._load),
            (tirx.BufferStore, self._store),
            *((kind, self._divide) for kind in (tirx.Div, tirx.FloorDiv, tirx.Mod, tirx.FloorMod)),
        ]
        return function.with_body(structural_mutate(function.body, rules))

    def _loop(self, loop: tirx.For, mutator: Any) -> Any:
        self._analyzer.bind(loop.loop_var, ir.Range.from_min_extent(loop.min, loop.extent))
        outside = self._times
        self._times *= self._most(loop.extent)
        result = mutator.default_mutate(loop)
        self._times = outside
        return result

    def _most(self, extent: Any) -> int:
        """Iterations, at most; a loop that depends on data counts once, and no graph of a stranger's has one."""
        bound = int(self._analyzer.const_int_bound(extent).max_value)
        return max(bound, 0) if bound < _FAR else 1

    def _block(self, block: Any, mutator: Any) -> Any:
        for axis in block.iter_vars:
            self._analyzer.bind(axis.var, axis.dom)
        for buffer in block.alloc_buffers:
            size = np.dtype(str(buffer.dtype)).itemsize
            self.largest = max(self.largest, size * math.prod(self._most(extent) for extent in buffer.shape))
        return mutator.default_mutate(block)

    def _call(self, call: ir.Call, mutator: Any) -> Any:
        """What stands under a condition is looked at with it in mind: padding is mostly written so."""
        if getattr(call.op, "name", "") != "prim.if_then_else":
            return mutator.default_mutate(call)
        condition, then, otherwise = call.args
        with self._analyzer.constraint_scope(condition):
            then = mutator.mutate(then)
        with self._analyzer.constraint_scope(tirx.Not(condition)):
            otherwise = mutator.mutate(otherwise)
        return tirx.if_then_else(mutator.mutate(condition), then, otherwise)

    def _load(self, load: Any, mutator: Any) -> Any:
        changed = mutator.default_mutate(load)
        return tirx.BufferLoad(changed.source, self._inside(changed.source, changed.indices))

    def _store(self, store: tirx.BufferStore, mutator: Any) -> Any:
        self.work += self._times
        changed = mutator.default_mutate(store)
        return tirx.BufferStore(changed.buffer, changed.value, self._inside(changed.buffer, changed.indices))

    def _inside(self, buffer: Any, indices: Any) -> list[Any]:
        return [self._clamped(index, extent) for index, extent in zip(indices, buffer.shape, strict=True)]

    def _clamped(self, index: Any, extent: Any) -> Any:
        if self._analyzer.const_int_bound(index).min_value < 0 and not self._analyzer.can_prove(index >= 0):
            index = tirx.max(index, tirx.IntImm(index.ty, 0))
        if not self._analyzer.can_prove(index < extent):
            index = tirx.min(index, tirx.Cast(index.ty, extent) - tirx.IntImm(index.ty, 1))
        return index

    def _divide(self, division: Any, mutator: Any) -> Any:
        """Division that ends no process: by 0 as by 1; by -1, of which the most negative number has no result, -a."""
        changed = mutator.default_mutate(division)
        a, b, kind = changed.a, changed.b, type(changed)
        dtype = str(changed.ty)
        found = self._analyzer.const_int_bound(b) if "int" in dtype else None
        if found is None or found.min_value > 0 or found.max_value < -1:
            return changed
        zero, one = tirx.IntImm(changed.ty, 0), tirx.IntImm(changed.ty, 1)
        if dtype.startswith("u"):
            return kind(a, tirx.Select(b.equal(zero), one, b))
        minus = tirx.IntImm(changed.ty, -1)
        simple = zero if isinstance(changed, tirx.Mod | tirx.FloorMod) else zero - a
        safe = tirx.Select(tirx.any(b.equal(zero), b.equal(minus)), one, b)
        return tirx.Select(b.equal(minus), simple, kind(a, safe))
