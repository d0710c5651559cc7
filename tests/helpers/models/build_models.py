"""Compiling models for the tests of single passes."""

import onnx
from tvm import ir, tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.driver.quantisation_scheme import requantisation
from accel.driver.trials.region_timer import RegionTimer
from accel.frontend.integer_recovery.recover_integers import ImportedModel, import_integer_model
from accel.isa.family_registry import family_of, reserved_bytes
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.float_units import float_room, runs_programs
from accel.lowering.codegen.program_linking import Arrange, emit
from accel.lowering.ir.function_attributes import region_functions
from accel.lowering.movement.absorbed_movement import absorb_movement
from accel.lowering.packing.graph_packing import pack
from accel.lowering.partition.graph_partition import partition
from accel.lowering.pipeline import REGION_STAGES, RegionStage
from accel.lowering.vector.vector_partition import place_vector_programs
from accel.program.program_model import Program


def imported(model: onnx.ModelProto, accelerator: Accelerator) -> ImportedModel:
    """The integer graph for an accelerator."""
    target = Target(accelerator)
    requantize, _ = requantisation(target)
    balances = Capabilities.of(target).balances
    return import_integer_model(model, requantize, balances=balances, float_room=float_room(target))


def lower(
    model: onnx.ModelProto, accelerator: Accelerator, last: str = "allocate", *, settled: bool = False
) -> ir.IRModule:
    """The module as stage ``last`` leaves it; close calls are ``settled`` as a job does, or left to the estimate."""
    target = Target(accelerator)
    module = imported(model, accelerator).module
    measure = RegionTimer(target).times if settled else None
    cost = family_of(accelerator).tiling_cost
    stages = (
        RegionStage(
            "partition",
            "",
            lambda module, target: place_vector_programs(
                partition(module, target, cost, measure), target, RegionTimer(target).times
            ),
        ),
        RegionStage("pack", "", _packed),
        *REGION_STAGES,
    )
    for stage in stages:
        module = stage.run(module, target)
        if stage.name == last:
            return module
    raise AssertionError(last)


def _packed(module: ir.IRModule, target: Target) -> ir.IRModule:
    """As a job packs it."""
    packed = pack(module, target, by_programs=runs_programs(target))
    return absorb_movement(packed, target, RegionTimer(target).times)


def build(model: onnx.ModelProto, accelerator: Accelerator, *, settled: bool = False) -> Program:
    """The whole program."""
    return linked(lower(model, accelerator, settled=settled), accelerator)


def linked(module: ir.IRModule, accelerator: Accelerator, arrange: Arrange | None = None) -> Program:
    """The program of an allocated module, whose tensors lie as those of a job do."""
    return emit(module, accelerator, arrange, reserved=reserved_bytes(accelerator))


def regions(module: ir.IRModule) -> list[tirx.PrimFunc]:
    """The accelerator's functions."""
    return list(region_functions(module).values())
