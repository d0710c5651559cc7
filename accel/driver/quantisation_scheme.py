"""How a float model is quantised for an accelerator, as far as the job's options leave that open."""

from accel.accelerator.target import Target
from accel.driver.run_options import QuantisationOptions
from accel.frontend.integer_recovery.requantization import Requantize, WideProduct
from accel.frontend.quantize.scale_grid import Scales, Scheme, ZeroPoints
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.float_units import multiplies_floats
from accel.lowering.kinds.rows.row_tiling import layer_norm_columns, softmax_columns


def requantisation(target: Target) -> tuple[Requantize, Scales]:
    """Returns how int32 becomes int8 again on it, and the scales that a float model gets for that."""
    capabilities = Capabilities.of(target)
    if capabilities.scales:
        return "scale", "free"
    return capabilities.wide_product or capabilities.multiplies or "shift", "power of two"


def scheme_of(target: Target, options: QuantisationOptions) -> Scheme:
    """Returns how a float model is quantised for ``target``."""
    requantize, scales = requantisation(target)
    at_once = isinstance(requantize, WideProduct) or requantize in ("multiply at once", "multiply and round")
    capabilities = Capabilities.of(target)
    at_once = at_once and capabilities.multiplies_channels
    by_channel = options.weight_scales == "channel" or (options.weight_scales == "auto" and at_once)
    # where results do not lie as data the host lays these out, and loads that pad leave it less to write
    shifting: ZeroPoints = "fused" if target.contraction.results_are_data else "unpadded"
    usual: ZeroPoints = "all" if requantize == "scale" else shifting
    zero_points = usual if options.zero_points == "auto" else options.zero_points
    scales = "free" if by_channel else scales
    floats = multiplies_floats(target)
    scaled = scales == "free" and not floats
    return Scheme(
        scales,
        by_channel,
        zero_points,
        options.calibration_method,
        float_products=floats,
        stores_gelu=capabilities.stores_gelu,
        softmax_columns=softmax_columns(capabilities) if scaled else (0, 0),
        layer_norm_columns=layer_norm_columns(capabilities) if scaled else (0, 0),
    )
