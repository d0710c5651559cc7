"""Programs that are compiled here for layers which were measured on an FPGA."""

from collections.abc import Mapping
from dataclasses import dataclass

import onnx
from tvm import ir

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.catalog.derive_accelerator import derive_accelerator
from accel.driver.quantisation_scheme import requantisation
from accel.driver.trials.region_timer import RegionTimer
from accel.driver.trials.trial_timer import TrialTimer
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.isa.family_registry import arrangement_of, family_of
from accel.lowering.codegen.program_linking import emit
from accel.lowering.ir.function_attributes import REGION
from accel.lowering.packing.graph_packing import pack
from accel.lowering.partition.graph_partition import partition
from accel.lowering.pipeline import REGION_STAGES
from accel.simulate.engine import simulate
from examples.single import Conv, Dense, conv_model, dense_model

from .library_tiling import Memories
from .measured_programs import Shape, convolution_of, is_product


def model_of(shape: Shape) -> onnx.ModelProto:
    """Returns a network of the layer as it was measured: no bias, and the padding that its program gave it."""
    if is_product(shape):
        batch, depth, columns, rows = shape[:4]
        return dense_model(Dense(batch * rows, depth, columns, bias=False))
    conv = convolution_of(shape)
    kernel, stride, padding = conv.kernel, conv.stride, conv.padding
    layer = Conv(
        conv.in_channels,
        conv.out_channels,
        conv.in_rows,
        conv.in_columns,
        (kernel, kernel),
        (stride, stride),
        (padding, padding, padding, padding),
        batch=conv.batch,
        bias=False,
    )
    return conv_model(layer)


def with_memories(accelerator: Accelerator, memories: Memories) -> Accelerator:
    """Returns the accelerator with memories of other sizes."""
    rows = {"scratchpad_bytes": memories.scratchpad_rows, "accumulator_bytes": 4 * memories.accumulator_rows}
    return derive_accelerator(accelerator, {key: memories.dim * each for key, each in rows.items()})


@dataclass(frozen=True)
class Compiled:
    """Cycles of a layer's program; its instructions; and its ``regions``, each with its tiling, as JSON."""

    cycles: int
    instructions: int
    regions: Mapping[str, str]

    @property
    def unfolded(self) -> bool:
        """Whether the host lays the patches of the image out, which is not in the cycles."""
        return any('"unfolded":null' not in region and '"unfolded"' in region for region in self.regions.values())


def compiled(shape: Shape, accelerator: Accelerator) -> Compiled:
    """Returns what a job of the network makes of it, tilings tried as it tries them; the whole layer is in it.

    Raises:
        ValueError: the host would run it.
    """
    target = Target(accelerator)
    module = import_integer_model(model_of(shape), requantize=requantisation(target)[0]).module
    module = partition(
        module, target, family_of(accelerator).tiling_cost, TrialTimer(RegionTimer(target), target).times
    )
    regions = _regions(module)
    if not regions:
        raise ValueError(f"no program of {shape} for {accelerator.name}")
    module = pack(module, target)
    for stage in REGION_STAGES:
        module = stage.run(module, target)
    simulation = simulate(emit(module, accelerator, arrangement_of(accelerator)), {}, function=False)
    return Compiled(simulation.cycles, sum(len(each.decoded.words) for each in simulation.launches), regions)


def _regions(module: ir.IRModule) -> dict[str, str]:
    found = {}
    for variable, function in module.functions.items():
        region = function.attrs.get(REGION) if function.attrs else None
        if region is not None:
            found[variable.name_hint] = str(region)
    return found
