"""Recovery of max pooling: between dequantize and quantize of one scale the largest number is the largest integer."""

import tvm
from tvm import relax

from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.dataflow_block import DataflowRewrite
from accel.frontend.integer_recovery.operators.movement_recovery import same_numbers
from accel.frontend.integer_recovery.qdq_chains import follow_chain
from accel.frontend.integer_recovery.requantization import Requantize


def recover_max_pool(rewrite: DataflowRewrite, binding: relax.Binding, _requantize: Requantize) -> bool:
    """Replaces the maximum over windows of an int8 image, and its chain, by the composite ``max_pool``.

    False, and nothing done, if its integers before and after stand for different numbers.
    """
    call = rewrite.graph.call(binding.var, "relax.nn.max_pool2d")
    x = rewrite.graph.dequantised(call.args[0]) if call is not None else None
    if call is None or x is None or not isinstance(x.value, relax.Var):
        return False
    chain = follow_chain(rewrite.graph, binding.var, bias_size=None)
    if chain.output is None:
        return False
    attributes = call.attrs
    if (
        x.dtype != "int8"
        or not same_numbers(x, chain.output)
        or attributes.ceil_mode
        or str(attributes.layout) != "NCHW"
    ):
        return False
    strides, padding, dilation = (
        tuple(map(int, numbers)) for numbers in (attributes.strides, attributes.padding, attributes.dilation)
    )
    window = composite_functions.ConvolutionWindow(strides, padding, dilation, groups=1)
    kernel = (int(attributes.pool_size[0]), int(attributes.pool_size[1]))
    nodes = rewrite.nodes([chain.root, *chain.members])
    shape = [int(extent) for extent in x.value.ty.shape]
    function = composite_functions.max_pool(nodes, shape, window, kernel, chain.limits)
    rewrite.replace(chain.members)
    callee = rewrite.composite(function, rewrite.origin[chain.root.name])
    rewrite.bind(chain.tail, tvm.ir.Call(callee, [x.value]))
    return True
