"""Recovery of products of two activations that no accelerator runs: of an image and its gate, and of zero points."""

import numpy as np
import tvm
from tvm import relax

from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.composite_functions import ResultIntegers
from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite, QuantisedTensor
from accel.frontend.integer_recovery.operators.table_recovery import Tables
from accel.frontend.integer_recovery.qdq_chains import follow_chain
from accel.frontend.integer_recovery.requantization import as_float32_factor

_BYTES = ("int8", "uint8")
_ZERO_POINTS = "its operands have zero points, and no instruction takes one off before it multiplies"
_GATE = "one factor serves many elements, and the compiler multiplies tensors of one size"
_SCALES = "its scales do not differ by a power of two"


def recover_product(rewrite: DataflowRewrite, binding: relax.Binding, tables: Tables) -> bool:
    """Replaces a product of two activations and its chain by the host's ``product``, in integers.

    False, and nothing done, where an operand is no int8 or uint8 of one scale, no quantize follows, or the product is
    the end of a function of one tensor, of which ``tables`` makes a table. What the accelerator may run has been
    recovered before.
    """
    call = rewrite.graph.call(binding.var, "relax.multiply")
    operands = [_operand(rewrite, argument) for argument in call.args] if call is not None else []
    if call is None or None in operands:
        return False
    chain = follow_chain(rewrite.graph, binding.var, bias_size=None)
    output = chain.output
    if output is None or output.dtype not in _BYTES or tables.ends_in(chain.tail):
        return False
    known = [operand for operand in operands if operand is not None]
    scale = as_float32_factor(np.asarray(known[0].scale * known[1].scale / output.scale))
    shapes = [[int(extent) for extent in operand.value.ty.shape.values] for operand in known]
    zero_points = any(operand.zero_point for operand in known)
    function = composite_functions.product(
        rewrite.nodes([chain.root, *chain.members]),
        [
            (shape, ResultIntegers(operand.dtype, int(operand.zero_point)))
            for shape, operand in zip(shapes, known, strict=True)
        ],
        float(scale),
        ResultIntegers(output.dtype, int(output.zero_point)),
        chain.limits,
        _ZERO_POINTS if zero_points else _GATE if shapes[0] != shapes[1] else _SCALES,
    )
    rewrite.replace(chain.members)
    callee = rewrite.composite(function, rewrite.origin[chain.root.name])
    rewrite.origin[chain.tail.name] = rewrite.origin[chain.root.name]  # not the quantize
    rewrite.bind(chain.tail, tvm.ir.Call(callee, [operand.value for operand in known]))
    return True


def _operand(rewrite: DataflowRewrite, argument: relax.Expr) -> QuantisedTensor | None:
    """The integers that a factor is dequantised from; None if it is a constant, or of another kind."""
    found = rewrite.graph.dequantised(argument)
    fits = found is not None and found.per_tensor and found.dtype in _BYTES and isinstance(found.value, relax.Var)
    return found if fits and found is not None and rewrite.graph.constant(found.value) is None else None
