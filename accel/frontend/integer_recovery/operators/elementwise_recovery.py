"""Recovery of elementwise operators on int8: relu, clip and requantisation alone, sums, maxima, products."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax

from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.dataflow_block import Dataflow, DataflowRewrite, shape_of
from accel.frontend.integer_recovery.element_layout import as_rows, layout_of_elements
from accel.frontend.integer_recovery.int8_operands import int8_output
from accel.frontend.integer_recovery.operators.addition_recovery import INT8_MAGNITUDE, MAX_SHIFT
from accel.frontend.integer_recovery.qdq_chains import Chain, bounds_of, follow_chain
from accel.frontend.integer_recovery.requantization import (
    FINER,
    HELD_BY_FLOATS,
    Accumulator,
    Narrowing,
    Requantize,
    epilogue_of,
    exact_exponent,
    ratio_exponent,
)
from accel.frontend.integer_recovery.rounding_bias import grain_of
from accel.region.elementwise import Combination

_COMBINATIONS: dict[str, Combination] = {
    "relax.add": "sum",
    "relax.subtract": "sum",
    "relax.maximum": "max",
    "relax.minimum": "min",
    "relax.multiply": "product",
}
_INT8 = (-INT8_MAGNITUDE, INT8_MAGNITUDE - 1)
_TERMS = 16  # operands of one composite, at most


@dataclass(frozen=True)
class Term:
    """An int8 tensor, which of its integers stands for 0, what a unit of it is worth, and its sign."""

    value: relax.Expr
    zero_point: int
    scale: float
    sign: int


@dataclass(frozen=True)
class _Combined:
    """Integers, each times its weight, combined, and ``addend``: the result is worth ``scale`` a unit.

    ``magnitude`` bounds its absolute value.
    """

    combination: Combination
    values: tuple[relax.Expr, ...]
    weights: tuple[int, ...]
    addend: int
    scale: float
    magnitude: int


def recover_elementwise(
    rewrite: DataflowRewrite, binding: relax.Binding, requantize: Requantize, *, on_host: bool = True
) -> bool:
    """Replaces an elementwise operator and its chain by ``elementwise``; returns False if it is not exact.

    What float32 does not hold is for the host, and is one where it may be there: ``on_host``.
    """
    call = rewrite.graph.call(binding.var)
    combined = _combined(rewrite.graph, call, requantize) if call is not None else None
    if call is None or combined is None or (not on_host and combined.magnitude > HELD_BY_FLOATS):
        return False
    # last, as only one operator of a run has integers ahead of it: following it from each would take its square
    chain = _chain(rewrite.graph, binding, call)
    if chain is None or chain.output is None or chain.output.dtype != "int8":
        return False
    if _changes_nothing(combined, chain):
        rewrite.replace(chain.members)
        rewrite.origin.pop(chain.tail.name, None)
        rewrite.bind(chain.tail, combined.values[0])
        return True
    found = narrowing_of(combined, chain, requantize)
    if found is not None and found.too_coarse(1) and all(abs(weight) == 1 for weight in combined.weights):
        combined = _finer(combined)
        found = narrowing_of(combined, chain, requantize)
    if found is None:
        return False
    _replace(rewrite, chain, combined, found)
    return True


def _changes_nothing(combined: _Combined, chain: Chain) -> bool:
    """Whether each integer becomes itself, as where a factor is a part of the scale alone."""
    (value, *others), output = combined.values, chain.output
    if others or combined.combination != "sum" or combined.weights != (1,) or output is None or not output.per_tensor:
        return False
    if chain.bias is not None or chain.gain is not None or np.isfinite([chain.low, chain.high]).any():
        return False
    if [*value.ty.shape.values] != [*chain.root.ty.shape.values]:
        return False
    integers = np.arange(_INT8[0], _INT8[1] + 1)
    ratio, zero_point = combined.scale / float(output.scale), int(output.zero_point)
    return bool((np.clip(np.rint((integers + combined.addend) * ratio) + zero_point, *_INT8) == integers).all())


def _finer(combined: _Combined) -> _Combined:
    """The same in units of a part of their worth."""
    return replace(
        combined,
        weights=tuple(FINER * weight for weight in combined.weights),
        addend=FINER * combined.addend,
        scale=combined.scale / FINER,
        magnitude=FINER * combined.magnitude,
    )


def narrowing_of(combined: _Combined, chain: Chain, requantize: Requantize) -> Narrowing | None:
    """Returns what brings the integers to the chain's output; None if nothing does."""
    acc = Accumulator(
        np.asarray(combined.scale),
        np.asarray(combined.magnitude + abs(combined.addend)),
        grain=grain_of(*combined.weights),
        products=combined.combination == "product",
    )
    found = epilogue_of(acc, int8_output(chain), requantize)
    return None if isinstance(found, str) or found.factors is not None else found


def _chain(graph: Dataflow, binding: relax.Binding, call: tvm.ir.Call) -> Chain | None:
    """What follows the operator, its own clipping and quantisation included."""
    if call.op.name == "relax.quantize":
        output = graph.parameters(call, binding.var)
        per_tensor = output is not None and output.per_tensor
        return Chain(binding.var, output=output, limits=_INT8) if per_tensor else None
    bounds = bounds_of(call)
    if bounds is not None:
        return follow_chain(graph, binding.var, bias_size=None, bounds=bounds)
    return follow_chain(graph, binding.var, bias_size=None) if call.op.name in _COMBINATIONS else None


def _changes_range(call: tvm.ir.Call) -> bool:
    """Whether it is a quantize, a relu or a clip."""
    return call.op.name == "relax.quantize" or bounds_of(call) is not None


def _combined(graph: Dataflow, call: tvm.ir.Call, requantize: Requantize) -> _Combined | None:
    """The operator on integers."""
    combination = _COMBINATIONS.get(call.op.name, "sum")
    if combination == "product":
        return _product(graph, call.args, requantize)
    if call.op.name not in _COMBINATIONS and not _changes_range(call):
        return None
    terms = _terms(graph, call) if call.op.name in _COMBINATIONS else [_term(graph, call.args[0], 1)]
    known = [term for term in terms if term is not None]
    if len(known) != len(terms) or not any(_varies(term.value) for term in known):
        return None
    finest = min(term.scale for term in known)
    shifts = [ratio_exponent(term.scale, finest) for term in known]
    if any(shift is None or shift > MAX_SHIFT for shift in shifts):
        return None
    weights = tuple(term.sign << shift for term, shift in zip(known, shifts, strict=True) if shift is not None)
    zeros = [term.zero_point * weight for term, weight in zip(known, weights, strict=True)]
    if combination != "sum" and len(set(zeros)) > 1:
        return None  # the largest integer does not stand for the largest number
    addend = -sum(zeros) if combination == "sum" else -zeros[0]
    magnitude = INT8_MAGNITUDE * sum(map(abs, weights))
    return _Combined(combination, tuple(term.value for term in known), weights, addend, finest, magnitude)


def _terms(graph: Dataflow, call: tvm.ir.Call) -> list[Term | None]:
    """The operands of an operator, and those of the same operator in their place: it is associative.

    Of more than ``_TERMS`` a part.
    """
    if call.op.name == "relax.subtract":
        return [_term(graph, operand, sign) for operand, sign in zip(call.args, (1, -1), strict=True)]
    terms: list[Term | None] = []
    pending = [*reversed(call.args)]
    while pending and len(terms) + len(pending) <= _TERMS:
        operand = pending.pop()
        inner = graph.call(operand, call.op.name) if isinstance(operand, relax.Var) else None
        if inner is not None and graph.only_user(operand):
            pending += reversed(inner.args)
        else:
            terms.append(_term(graph, operand, 1))
    return [*terms, *(None for _ in pending)]


def _term(graph: Dataflow, operand: relax.Expr, sign: int) -> Term | None:
    x = graph.dequantised(operand)
    if x is None or x.dtype != "int8" or not x.per_tensor:
        return None
    value = graph.constant(x.value)
    if value is None and not _varies(x.value):
        return None
    return Term(x.value if value is None else relax.const(value), int(x.zero_point), float(x.scale), sign)


def _product(graph: Dataflow, operands: Any, requantize: Requantize) -> _Combined | None:
    """The product of two tensors, or of one and a number, which is a part of its scale."""
    numbers = [graph.constant(operand) for operand in operands]
    for operand, number in zip(operands, reversed(numbers), strict=True):
        by = float(number.reshape(())) if number is not None and number.size == 1 else 0.0
        x = _term(graph, operand, 1) if by and math.isfinite(by) else None
        if x is not None and _varies(x.value) and (requantize != "shift" or exact_exponent(abs(by)) is not None):
            sign = 1 if by > 0 else -1
            return _Combined("sum", (x.value,), (sign,), -sign * x.zero_point, x.scale * abs(by), INT8_MAGNITUDE)
    a, b = (_term(graph, operand, 1) for operand in operands)
    if a is None or b is None or a.zero_point or b.zero_point or not (_varies(a.value) or _varies(b.value)):
        return None
    return _Combined("product", (a.value, b.value), (1, 1), 0, a.scale * b.scale, INT8_MAGNITUDE**2)


def _varies(value: relax.Expr) -> bool:
    return isinstance(value, relax.Var)


def _replace(rewrite: DataflowRewrite, chain: Chain, combined: _Combined, found: Narrowing) -> None:
    """Bind the chain's end to the composite of its operands."""
    # a requantisation alone is named after its own node
    nodes = rewrite.nodes([chain.root, *chain.members]) or [rewrite.origin[chain.root.name].name]
    values, shape, laid_out = combined.values, shape_of(chain.root), layout_of_elements(rewrite.graph, chain.root)
    transposition = _transposition(rewrite, chain, combined) if len(laid_out) < len(shape) else None
    if transposition is not None:
        values, shape = (transposition.args[0],), shape_of(transposition.args[0])
        laid_out = as_rows(shape)
    laid_out = rewrite.rounding.shape("elementwise", laid_out, found.rounding)
    arguments = [_spread(rewrite, chain.root, value, shape, laid_out) for value in values]
    rewrite.replace(chain.members)
    offsets = rounding_offsets(rewrite, chain, laid_out, found)
    function = composite_functions.elementwise(
        nodes,
        laid_out,
        combined.weights,
        combined.combination,
        combined.addend + int(found.addend),
        found.epilogue,
        rounds=bool(offsets),
    )
    arguments += offsets
    result: relax.Expr = tvm.ir.Call(rewrite.composite(function, rewrite.origin[chain.root.name]), arguments)
    if laid_out != shape:
        result = relax.op.reshape(rewrite.emit(result, chain.tail, "rows"), shape)
    if transposition is not None:
        result = relax.op.permute_dims(rewrite.emit(result, chain.tail, "lying"), transposition.attrs.axes)
        rewrite.origin[chain.tail.name] = rewrite.origin[combined.values[0].name]
    rewrite.bind(chain.tail, result)


def _transposition(rewrite: DataflowRewrite, chain: Chain, combined: _Combined) -> tvm.ir.Call | None:
    """The transposition of integers that only this operator reads, if it reads nothing else.

    Behind the operator instead, it may be as the layer that reads the result would have it in any case.
    """
    (value, *others), graph = combined.values, rewrite.graph
    per_tensor = chain.output is not None and chain.output.per_tensor
    if others or not per_tensor or not isinstance(value, relax.Var) or shape_of(value) != shape_of(chain.root):
        return None
    made, users = rewrite.bound(value), graph.users(value)
    alone = len(users) == 1 and len(graph.users(users[0].var)) == 1
    return made if alone and made is not None and made.op.name == "relax.permute_dims" else None


def rounding_offsets(
    rewrite: DataflowRewrite, chain: Chain, shape: Sequence[int], found: Narrowing
) -> list[relax.Expr]:
    """Returns what each channel adds for errors to cancel over them, as an argument, if that is anything."""
    node = rewrite.origin[chain.root.name].name
    offsets = rewrite.rounding.offsets("elementwise", found.rounding, shape[1], node)
    return [relax.const(composite_functions.along_channels(shape, offsets))] if offsets.any() else []


def _spread(
    rewrite: DataflowRewrite, root: relax.Var, value: relax.Expr, shape: list[int], laid_out: list[int]
) -> relax.Expr:
    """An operand in the shape of the result."""
    if not _varies(value):
        whole = np.broadcast_to(value.value.numpy(), shape)
        return relax.const(np.ascontiguousarray(whole.reshape(laid_out)))
    if [int(size) for size in value.ty.shape.values] != shape:
        value = rewrite.emit(relax.op.broadcast_to(value, shape), root, "spread")
    return value if laid_out == shape else rewrite.emit(relax.op.reshape(value, laid_out), root, "rows")
