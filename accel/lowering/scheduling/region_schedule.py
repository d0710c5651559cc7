"""Schedule: tile each region, place its buffers in the accelerator's scopes, and mark nests with pragmas.

After it every nest that an instruction will replace carries that instruction's pragma, and the loops whose
iterations may overlap carry ``pragma_contexts``: the copies of each buffer that lives inside.
"""

from tvm import ir, tirx

from accel.accelerator.target import Target
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.ir.function_attributes import map_regions
from accel.lowering.kinds.registry import kind_of
from accel.region.kinds import Region


def schedule(module: ir.IRModule, target: Target) -> ir.IRModule:
    """Schedule every PrimFunc that pack marked as a region of the accelerator, as its kind does."""
    capabilities = Capabilities.of(target)

    def scheduled(function: tirx.PrimFunc, region: Region) -> tirx.PrimFunc:
        return kind_of(region).schedule(function, region, capabilities)

    return map_regions(module, scheduled)
