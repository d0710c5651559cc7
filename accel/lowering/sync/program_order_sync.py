"""Program-order synchronisation: units wait wherever their calls alternate, and run ahead where that is safe."""

from tvm import tirx

from accel.accelerator.document import Accelerator
from accel.errors import CompileError
from accel.lowering.ir.affine_nest import simplify
from accel.lowering.ir.document_paths import INSTRUCTIONS
from accel.lowering.ir.injected_function import InjectedFunction, Loop, buffer_contexts
from accel.lowering.sync.program_order import CallStep, Extents
from accel.lowering.sync.token_protocol import (
    AHEAD,
    ContextRotation,
    RunAhead,
    Signals,
    UnitPair,
    ordering_fault,
    run_ahead_options,
    shortened_extents,
    token_protocol,
    unit_pairs,
)

Flags = dict[int, dict[str, tirx.Expr]]  # site -> token field -> 1 where its condition holds
_Chosen = list[tuple[UnitPair, tuple[RunAhead, ...]]]


def synchronise_in_program_order(
    view: InjectedFunction, accelerator: Accelerator, limit: int
) -> tuple[Flags, dict[str, tirx.Expr]]:
    """The token fields of every call, and those of the instruction that ends the launch.

    ``limit`` is how many tokens a queue holds.

    Raises:
        CompileError: units that use one buffer cannot wait for each other, directly or by way of others.
    """
    short = _ShortenedProgram(view, accelerator)
    chosen: _Chosen = [(pair, ()) for pair in unit_pairs(short.steps, accelerator)]
    wrong = short.unordered(chosen)
    if wrong is not None:
        raise CompileError(f"{wrong}: no tokens between the units can order it", field=INSTRUCTIONS)
    if limit > AHEAD:
        _run_ahead(chosen, short)
    signals = token_protocol(chosen, short.extents, accelerator)
    flags: Flags = {}
    for (index, name), ways in signals.items():
        wanted: tirx.Expr = tirx.const(False, "bool")
        for bounds in ways:
            where: tirx.Expr = tirx.const(True, "bool")
            for bound in bounds:
                where = tirx.And(where, bound.expression(short.variables, short.extents))
            wanted = tirx.Or(wanted, where)
        flags.setdefault(index, {})[name] = simplify(tirx.Cast("int32", wanted))
    return flags, flags.pop(len(view.sites), {})


def _run_ahead(chosen: _Chosen, short: "_ShortenedProgram") -> None:
    """Let units run ahead, each as far as all stays ordered; those with the innermost turns come first."""
    offers = [(number, run_ahead_options(pair, short.extents)) for number, (pair, _) in enumerate(chosen)]
    for number, offered in sorted(offers, key=lambda offer: -_depth(chosen[offer[0]][0])):
        pair = chosen[number][0]
        for lag in offered:
            if short.unordered([*chosen[:number], (pair, lag), *chosen[number + 1 :]]) is None:
                chosen[number] = (pair, lag)
                break


def _depth(pair: UnitPair) -> int:
    return max(len(step.loops) for step in pair.steps)


class _ShortenedProgram:
    """A surveyed function as steps over numbered loops, and the same with few iterations to try tokens on."""

    def __init__(self, view: InjectedFunction, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.variables: dict[int, tirx.Var] = {}
        self.extents: dict[int, int] = {}
        numbers: dict[tirx.Var, int] = {}

        def numbered(loops: tuple[Loop, ...]) -> tuple[int, ...]:
            for loop in loops:
                number = numbers.setdefault(loop.variable, len(numbers))
                self.variables[number], self.extents[number] = loop.variable, loop.extent
            return tuple(numbers[loop.variable] for loop in loops)

        places = {buffer: number for number, buffer in enumerate(view.allocations)}
        self.steps = [
            CallStep(
                site.index,
                site.name,
                site.unit,
                numbered(site.loops),
                tuple(places[buffer] for buffer in site.buffers if buffer in places),
            )
            for site in view.sites
        ]
        finish = accelerator.finish
        if finish is not None:
            self.steps.append(CallStep(len(self.steps), finish.name, finish.unit, (), ()))
        self.held = {
            places[buffer]: ContextRotation(numbered(allocation.loops), buffer_contexts(allocation, view))
            for buffer, allocation in view.allocations.items()
        }
        self.fewer: Extents = shortened_extents(self.steps, self.extents)

    def unordered(self, chosen: _Chosen) -> str | None:
        """What the tokens leave unordered in the short program, or None."""
        signals: Signals = token_protocol(chosen, self.fewer, self.accelerator)
        return ordering_fault(self.steps, signals, self.held, self.fewer, self.accelerator)
