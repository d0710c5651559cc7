"""Compiling models for the tests of single passes."""

import onnx
from tvm import ir, tirx

from accel.accelerator.document import Accelerator
from accel.frontend.integers import import_integer_model
from accel.isa.registry import family_of
from accel.lowering.attributes import region_functions
from accel.lowering.emit import emit
from accel.lowering.stages import lowering_stages
from accel.program import Program
from accel.stages import requantisation


def lower(model: onnx.ModelProto, accelerator: Accelerator, last: str = "allocate") -> ir.IRModule:
    """The module as stage ``last`` leaves it."""
    requantize, _ = requantisation(accelerator)
    module = import_integer_model(model, requantize=requantize).module
    for stage in lowering_stages(family_of(accelerator).tiling_cost):
        module = stage.run(module, accelerator)
        if stage.name == last:
            return module
    raise AssertionError(last)


def build(model: onnx.ModelProto, accelerator: Accelerator) -> Program:
    """The whole program."""
    return emit(lower(model, accelerator), accelerator)


def regions(module: ir.IRModule) -> list[tirx.PrimFunc]:
    """The accelerator's functions."""
    return list(region_functions(module).values())
