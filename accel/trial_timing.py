"""The timing engine as a measure of regions, for the compiler to settle close calls with."""

from accel.accelerator.document import Accelerator
from accel.cache import Cache, Kept, cache_key
from accel.errors import CyclopsError
from accel.isa.decode import decode
from accel.isa.family_registry import family_of
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.ir.function_attributes import dump_region
from accel.lowering.partition.autotune import Measure
from accel.lowering.pipeline import region_words
from accel.region.kinds import Region


def region_timer(accelerator: Accelerator, cache: Cache | None = None) -> Measure:
    """Cycles of a region alone on ``accelerator``; what is known already is in ``cache``."""
    document, kept, able = accelerator.model_dump_json(), Kept(cache), Capabilities.of(accelerator)

    def measure(region: Region) -> int | None:
        key = cache_key("cycles", document, dump_region(region))
        known = kept.get(key)
        if known is not None and known.isdigit():
            return int(known)
        cycles = _cycles(region, able)
        if cycles is not None:
            kept.put(key, str(cycles).encode())
        return cycles

    return measure


def _cycles(region: Region, able: Capabilities) -> int | None:
    """None for a region that cannot be compiled or timed: the stages will say why, if it is taken."""
    try:
        words = region_words(region, able)
        if words is None:
            return None
        return family_of(able.accelerator).time(decode(able.accelerator, words), {}).cycles
    except CyclopsError:
        return None
