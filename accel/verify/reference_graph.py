"""The integer graph piece by piece: composites in numpy, everything else compiled for the host."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax

from accel.errors import CompileError, SimulationError
from accel.host.host_executor import compile_module, run_compiled
from accel.lowering.ir.host_runs import (
    HostRun,
    LaunchRun,
    free_vars,
    host_module,
    main_results,
    needed_bindings,
    split_main,
)
from accel.util.arrays import Array
from accel.util.deadline import Deadline, OutOfTimeError
from accel.verify.reference_operators import is_known, run

_TOGETHER = 8  # pieces that are compiled at one time, between two looks at the clock


@dataclass(frozen=True)
class _Piece:
    """A run of operators as a function of its own: what it takes, what of it is wanted, and its module."""

    inputs: list[relax.Var]
    outputs: list[relax.Var]
    module: ir.IRModule


def run_reference(module: ir.IRModule, inputs: Sequence[Array], deadline: Deadline) -> list[Array]:
    """The outputs of ``main`` of an integer graph; ``inputs`` in its order.

    A composite is evaluated by the definitions of its operators (``accel/verify/reference_operators.py``); other
    operators are compiled as in a program's host steps, each to compute what it would alone.

    Raises:
        OutOfTimeError: the deadline has passed, or passes before what comes next would be done.
    """
    runs = split_main(module, _is_known_call)
    results = main_results(module["main"])
    try:
        pieces = _pieces(module, runs, results)
    except CompileError:  # something other than a tensor goes from one piece to another
        return run_compiled(_compiled(module, deadline), inputs)
    values: dict[relax.Expr, Array] = dict(zip(module["main"].params, inputs, strict=True))
    for at in range(0, len(runs), _TOGETHER):
        few = range(at, min(at + _TOGETHER, len(runs)))
        machine = _machine({index: pieces[index] for index in few if index in pieces}, deadline)
        for index in few:
            step = runs[index]
            if isinstance(step, LaunchRun):
                arguments = [_value(argument, values) for argument in step.call.args]
                values[step.var] = run(module[step.call.op], arguments, deadline)
            elif index in pieces:
                deadline.left()
                _run_piece(pieces[index], machine[_name(index)], values)
    return [_value(result, values) for result in results]


def _is_known_call(module: ir.IRModule, value: Any) -> bool:
    if not isinstance(value, ir.Call) or not isinstance(value.op, ir.GlobalVar):
        return False
    return isinstance(module[value.op], relax.Function) and is_known(module[value.op])


def _pieces(
    module: ir.IRModule, runs: Sequence[HostRun | LaunchRun], results: Iterable[relax.Expr]
) -> dict[int, _Piece]:
    """The host runs that have results, by their place."""
    read = [_read(step) for step in runs]
    pieces: dict[int, _Piece] = {}
    for index, step in enumerate(runs):
        if isinstance(step, LaunchRun):
            continue
        elsewhere = {var for other, names in enumerate(read) if other != index for var in names} | {*results}
        outputs = [binding.var for binding in step.bindings if binding.var in elsewhere]
        if outputs:
            made, taken = host_module(module, HostRun(needed_bindings(step.bindings, outputs)), outputs)
            pieces[index] = _Piece(taken, outputs, made)
    return pieces


def _read(step: HostRun | LaunchRun) -> set[relax.Var]:
    values = [step.call] if isinstance(step, LaunchRun) else [binding.value for binding in step.bindings]
    return {var for value in values for var in free_vars(value)}


def _machine(pieces: dict[int, _Piece], deadline: Deadline) -> Any:
    """What runs the pieces, compiled together, so that operators that are alike compile once."""
    if not pieces:
        return None
    functions: dict[Any, Any] = {}
    for index, piece in pieces.items():
        for variable, function in piece.module.functions.items():
            if variable.name_hint == "main":
                functions[_name(index)] = function.with_attr("global_symbol", _name(index))
            else:
                functions[variable] = function
    return relax.VirtualMachine(_compiled(ir.IRModule(functions), deadline), tvm.cpu())


def _compiled(module: ir.IRModule, deadline: Deadline) -> Any:
    try:
        return compile_module(module, deadline.left())
    except SimulationError as error:
        if error.kind == "work-limit":  # a compiled operator cannot be stopped
            raise OutOfTimeError from error
        raise


def _run_piece(piece: _Piece, function: Any, values: dict[relax.Expr, Array]) -> None:
    result = function(*(tvm.runtime.tensor(np.asarray(values[var], order="C")) for var in piece.inputs))
    several = [result] if isinstance(result, tvm.runtime.Tensor) else result
    values.update((var, tensor.numpy()) for var, tensor in zip(piece.outputs, several, strict=True))


def _name(index: int) -> str:
    return f"piece{index}"


def _value(expr: relax.Expr, values: dict[relax.Expr, Array]) -> Array:
    return values[expr] if isinstance(expr, relax.Var) else expr.value.numpy()
