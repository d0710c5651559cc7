"""Functions of regions over their tensors as they lie in DRAM: results within a border, blocks side by side.

Places are put into the functions that kinds make before and after the schedule alike, so that no kind knows of them:
loads and stores get another first address and other steps.
"""

from tvm import tirx

from accel.accelerator.contraction import Contraction
from accel.accelerator.memories import CHIP_ONLY
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.kinds.dram_places import in_images, moved
from accel.lowering.kinds.operand_views import in_views
from accel.lowering.kinds.registry import kind_of, launch_kind
from accel.region.kinds import AnyRegion, Region, VectorRegion


def region_function(region: AnyRegion, gemm: Contraction) -> tirx.PrimFunc:
    """What a region computes, as tensor expressions over its activations as they lie."""
    if isinstance(region, VectorRegion):
        return in_views(launch_kind(region).expression(region, gemm), region.views)
    return in_views(_in_images(kind_of(region).expression(region, gemm), region, gemm), region.views)


def scheduled_function(function: tirx.PrimFunc, region: AnyRegion, capabilities: Capabilities) -> tirx.PrimFunc:
    """The function of a region, as :func:`region_function` made it, scheduled as its kind does."""
    gemm = capabilities.gemm
    if not region.views and (
        isinstance(region, VectorRegion)
        or (gemm.sum_dtype not in CHIP_ONLY and not moved(function, region, gemm, kind_of(region).activations(region)))
    ):
        return launch_kind(region).schedule(function, region, capabilities)
    if isinstance(region, VectorRegion):  # whose schedule asks for the parameters alone
        plain = tirx.PrimFunc(_plain_parameters(function, region), function.body, function.ret_type, function.attrs)
        return in_views(launch_kind(region).schedule(plain, region, capabilities), region.views)
    plain = launch_kind(region).expression(region, gemm)
    plain = tirx.PrimFunc(plain.params, plain.body, plain.ret_type, function.attrs)
    return in_views(_in_images(launch_kind(region).schedule(plain, region, capabilities), region, gemm), region.views)


def _plain_parameters(function: tirx.PrimFunc, region: VectorRegion) -> list[tirx.Var]:
    """The parameters of a program's function as they are without views."""
    program, views = region.shape, [*region.views, *[None] * (len(function.params) - len(region.views))]
    return [
        parameter if view is None else tirx.decl_buffer(program.parameter_shape(tensor), tensor.dtype, tensor.name)
        for parameter, tensor, view in zip(function.params, program.in_dram, views, strict=True)
    ]


def _in_images(function: tirx.PrimFunc, region: Region, gemm: Contraction) -> tirx.PrimFunc:
    return in_images(function, region, gemm, kind_of(region).activations(region))
