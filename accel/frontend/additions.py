"""Recovery of the residual add: two int8 activations, shifted to the finer one's scale."""

import math

import tvm
from tvm import relax

from accel.frontend import composites
from accel.frontend.chains import Chain, follow
from accel.frontend.dataflow import Quantised
from accel.frontend.epilogues import Accumulator, Requantize, epilogue_of
from accel.frontend.rewrite import Rewrite
from accel.frontend.scales import exponent

_INT8_MAGNITUDE = 128
_MAX_SHIFT = 23
_RANKS = (2, 4)  # matrices and images; the elements of any other tensor are added as the rows of a matrix


def recover(rewrite: Rewrite, binding: relax.Binding, requantize: Requantize) -> bool:
    """Replace ``binding`` and its chain by the composite ``add``; False, and nothing done, if that is not exact."""
    call = rewrite.graph.call(binding.var, "relax.add")
    operands = _operands(rewrite, call) if call is not None else None
    if operands is None:
        return False
    chain = follow(rewrite.graph, binding.var, bias_size=None)
    shifts = _shifts(*operands)
    epilogue = _epilogue(chain, operands, shifts, requantize) if shifts is not None else None
    if shifts is None or epilogue is None:
        return False
    nodes = rewrite.nodes([chain.root, *chain.members])
    shape = [int(size) for size in binding.var.ty.shape.values]
    laid_out = shape if len(shape) in _RANKS else [math.prod(shape[:-1]), math.prod(shape[-1:])]
    function = composites.add(nodes, laid_out, shifts, epilogue)
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


def _shifts(a: Quantised, b: Quantised) -> tuple[int, int] | None:
    """By how much to shift each operand to the left for both to have the finer scale; None if shifting cannot."""
    if not (_symmetric(a) and _symmetric(b)):
        return None
    # of two float32, only a true power of two is one in float64
    ratio = exponent(float(a.scale) / float(b.scale))
    if ratio is None or abs(ratio) > _MAX_SHIFT:
        return None
    return max(ratio, 0), max(-ratio, 0)


def _epilogue(
    chain: Chain, operands: list[Quantised], shifts: tuple[int, int], requantize: Requantize
) -> composites.AnyEpilogue | None:
    """The requantisation of the sum, if its output is symmetric int8 and every step fits int32."""
    if chain.output is None or not _symmetric(chain.output):
        return None
    scale = min(float(operand.scale) for operand in operands)
    acc = Accumulator(scale, _INT8_MAGNITUDE * sum(1 << shift for shift in shifts))
    found = epilogue_of(acc, float(chain.output.scale), chain.limits, requantize)
    return None if isinstance(found, str) else found


def _symmetric(quantised: Quantised) -> bool:
    """Int8, of one scale, whose zero is 0."""
    return quantised.dtype == "int8" and quantised.per_tensor and bool(quantised.zero_point == 0)
