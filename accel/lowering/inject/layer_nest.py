"""The nest of a layer: every store with the loops around it, and the conditions under which something is read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm_ffi import structural_mutate

from accel.errors import CompileError
from accel.lowering.inject.copy_injection import bounds_of, difference_of
from accel.lowering.ir.affine_nest import AffineNest, constant_value, substitute


def stores_of_nest(
    statement: tirx.Stmt, loops: tuple[tuple[tirx.Var, int], ...], fixed: Mapping[tirx.Var, tirx.Expr]
) -> Iterator[AffineNest]:
    """Yields every store, with the loops around it; those of extent 1 are substituted away.

    Raises:
        CompileError: something other than serial loops of constant extent around stores.
    """
    if isinstance(statement, tirx.SeqStmt):
        for child in statement.seq:
            yield from stores_of_nest(child, loops, fixed)
    elif isinstance(statement, tirx.For):
        extent = constant_value(statement.extent)
        if extent is None or constant_value(statement.min) != 0:
            raise CompileError(f"the loop over {statement.loop_var} has no constant extent", field="pragma")
        if extent == 1:
            once = {statement.loop_var: tirx.const(0, str(statement.loop_var.ty.dtype))}
            yield from stores_of_nest(statement.body, loops, {**fixed, **once})
        else:
            yield from stores_of_nest(statement.body, (*loops, (statement.loop_var, extent)), fixed)
    elif isinstance(statement, tirx.BufferStore):
        variables, extents = tuple(variable for variable, _ in loops), tuple(extent for _, extent in loops)
        yield AffineNest(variables, extents, substitute(statement, dict(fixed)))
    elif isinstance(statement, tirx.AttrStmt):
        yield from stores_of_nest(statement.body, loops, fixed)
    elif not isinstance(statement, tirx.AllocBuffer | tirx.DeclBuffer):
        raise CompileError(f"a layer's nest has loops and stores only: {statement}", field="pragma")


Guard = tuple[TensorLoad, tirx.Expr]
"""What is read, and the condition under which it is."""


def unguarded(store: tirx.BufferStore) -> tuple[tirx.BufferStore, list[Guard]]:
    """Returns the store of what is read, and the conditions under which it is; else it is 0."""
    guards: list[Guard] = []

    def call(value: ir.Call, mutator: Any) -> Any:
        guarded = value.op.name == "prim.if_then_else" and constant_value(value.args[2]) == 0
        if guarded and isinstance(value.args[1], TensorLoad):
            guards.append((value.args[1], value.args[0]))
            return value.args[1]
        return mutator.default_mutate(value)

    value = structural_mutate(store.value, (ir.Call, call))
    return tirx.BufferStore(store.buffer, value, list(store.indices)), guards


@dataclass(frozen=True)
class WindowBound:
    """What is from 0 on where an operand is read: so many a step of each loop, and ``base``."""

    steps: dict[tirx.Var, int]
    base: tirx.Expr
    extents: dict[tirx.Var, int]

    @property
    def rises(self) -> bool:
        """Whether it grows with the loops: a bound from below."""
        return any(step > 0 for step in self.steps.values())

    def of_positions(self, bounds: "Sequence[WindowBound]") -> "WindowBound":
        """The same bound in the finest steps of all ``bounds``, which are those of positions of a window.

        Where a bound holds of every few positions alike, a compiler divides it: ``2 * y + k < 30`` with ``k`` of 0 and
        1 is ``y < 15``.
        """
        finest = max(bounds, key=lambda each: sum(map(abs, each.steps.values())))
        many = {abs(finest.steps[var] // step) for var, step in self.steps.items() if step and finest.steps.get(var)}
        if self.steps == finest.steps or len(many) != 1 or (factor := many.pop()) == 1:
            return self
        if any(abs(finest.steps.get(var, 0)) != factor * abs(step) for var, step in self.steps.items() if step):
            return self
        left = [(var, abs(step)) for var, step in finest.steps.items() if step and not self.steps.get(var)]
        if sum(step * (self.extents[var] - 1) for var, step in left) >= factor:
            return self
        sign = 1 if self.rises else -1
        steps = {var: sign * abs(step) for var, step in finest.steps.items()}
        base = self.base * factor
        return WindowBound(steps, base if self.rises else base + (factor - 1), self.extents)


def window_bounds(nest: AffineNest, condition: tirx.Expr) -> list[WindowBound]:
    """Returns the bounds that a condition is made of.

    Raises:
        CompileError: it is none that is affine in the loops.
    """
    lines = [nest.line(difference_of(bound)) for bound in bounds_of(condition)]
    extents = dict(zip(nest.variables, nest.extents, strict=True))
    return [WindowBound(dict(zip(nest.variables, line.strides, strict=True)), line.base, extents) for line in lines]


def outermost_loop(statement: tirx.Stmt) -> tirx.For | None:
    """Returns the outermost loop, if there is a whole nest in it."""
    return statement if isinstance(statement, tirx.For) and not isinstance(statement.body, tirx.BufferStore) else None
