"""Recovery of max pooling: between dequantize and quantize of one scale the largest number is the largest integer."""

import tvm
from tvm import relax

from accel.frontend.integer import composites
from accel.frontend.integer.chains import follow
from accel.frontend.integer.epilogues import Requantize
from accel.frontend.integer.moves import alike
from accel.frontend.integer.rewrite import Rewrite


def recover(rewrite: Rewrite, binding: relax.Binding, _requantize: Requantize) -> bool:
    """Replace the maximum over windows of an int8 image, and its chain, by the composite ``max_pool``.

    False, and nothing done, if its integers before and after stand for different numbers.
    """
    call = rewrite.graph.call(binding.var, "relax.nn.max_pool2d")
    x = rewrite.graph.dequantised(call.args[0]) if call is not None else None
    chain = follow(rewrite.graph, binding.var, bias_size=None)
    if call is None or x is None or chain.output is None or not isinstance(x.value, relax.Var):
        return False
    attributes = call.attrs
    if x.dtype != "int8" or not alike(x, chain.output) or attributes.ceil_mode or str(attributes.layout) != "NCHW":
        return False
    strides, padding, dilation = (
        tuple(map(int, numbers)) for numbers in (attributes.strides, attributes.padding, attributes.dilation)
    )
    window = composites.Window(strides, padding, dilation, groups=1)
    kernel = (int(attributes.pool_size[0]), int(attributes.pool_size[1]))
    nodes = rewrite.nodes([chain.root, *chain.members])
    shape = [int(extent) for extent in x.value.ty.shape]
    function = composites.max_pool(nodes, shape, window, kernel, chain.limits)
    rewrite.replace(chain.members)
    callee = rewrite.composite(function, rewrite.origin[chain.root.name])
    rewrite.bind(chain.tail, tvm.ir.Call(callee, [x.value]))
    return True
