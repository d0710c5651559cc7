"""Recovery of the residual add: two int8 activations brought to a common power-of-two scale."""

import math

import tvm
from tvm import relax

from accel.frontend import composites
from accel.frontend.chains import follow
from accel.frontend.dataflow import Quantised
from accel.frontend.rewrite import Rewrite
from accel.frontend.scales import exponent, requantisation_fits

_INT8_MAGNITUDE = 128
_MAX_SHIFT = 23
_RANKS = (2, 4)  # matrices and images; the elements of any other tensor are added as the rows of a matrix


def recover(rewrite: Rewrite, binding: relax.Binding) -> bool:
    """Replace ``binding`` and its chain by the composite ``add``; False, and nothing done, if that is not exact."""
    call = rewrite.graph.call(binding.var, "relax.add")
    operands = _operands(rewrite, call) if call is not None else None
    if operands is None:
        return False
    chain = follow(rewrite.graph, binding.var, bias_size=None)
    out = _exponent(chain.output) if chain.output is not None else None
    a, b = (_exponent(operand) for operand in operands)
    if a is None or b is None or out is None:
        return False
    common = min(a, b)
    shifts, shift = (a - common, b - common), out - common
    if max(shifts) > _MAX_SHIFT or not requantisation_fits(_INT8_MAGNITUDE * sum(1 << s for s in shifts), shift):
        return False
    nodes = rewrite.nodes([chain.root, *chain.members])
    shape = [int(size) for size in binding.var.ty.shape.values]
    laid_out = shape if len(shape) in _RANKS else [math.prod(shape[:-1]), math.prod(shape[-1:])]
    function = composites.add(nodes, laid_out, shifts, composites.Epilogue(shift, *chain.limits))
    rewrite.replace(chain.members)
    arguments = [operand.value for operand in operands]
    if laid_out != shape:
        arguments = [rewrite.emit(relax.op.reshape(x, laid_out), chain.root, "rows") for x in arguments]
    result: relax.Expr = tvm.ir.Call(rewrite.composite(function, rewrite.origin[chain.root.name]), arguments)
    if laid_out != shape:
        result = relax.op.reshape(rewrite.emit(result, chain.tail, "rows"), shape)
    rewrite.bind(chain.tail, result)
    return True


def _operands(rewrite: Rewrite, call: tvm.ir.Call) -> list[Quantised] | None:
    """Both operands, if they are quantised activations of one shape."""
    found = [rewrite.graph.dequantised(argument) for argument in call.args]
    operands = [operand for operand in found if operand is not None and isinstance(operand.value, relax.Var)]
    shapes = {tuple(int(size) for size in operand.value.ty.shape.values) for operand in operands}
    return operands if len(operands) == 2 and len(shapes) == 1 else None


def _exponent(quantised: Quantised) -> int | None:
    """The binary exponent of a symmetric int8 tensor's scale; None for any other."""
    if quantised.dtype != "int8" or not quantised.per_tensor or quantised.zero_point != 0:
        return None
    return exponent(float(quantised.scale))
