"""Whether instructions can do a region: it is compiled, and kept for the job if they can."""

from accel.accelerator.target import Target
from accel.errors import CyclopsError
from accel.lowering.codegen.region_lowering import LoweredRegion
from accel.lowering.ir.function_attributes import dump_region
from accel.lowering.pipeline import lower_region
from accel.program.program_model import MOST_INSTRUCTIONS
from accel.region.kinds import AnyRegion
from accel.util.content_cache import CacheStore, SealedCache, cache_key


class RegionTrial:
    """Tries regions on an accelerator; what is known already is in a cache.

    Attributes:
        lowered: the regions that were compiled, by their attribute, so that a job need not compile them again.
    """

    def __init__(self, target: Target, cache: CacheStore | None = None) -> None:
        self.lowered: dict[str, LoweredRegion] = {}
        self._known: dict[str, bool] = {}
        self._target, self._kept = target, SealedCache(cache)
        self._document = target.accelerator.model_dump_json()

    def __call__(self, region: AnyRegion) -> bool:
        """Returns whether the region can be compiled."""
        attribute = dump_region(region)
        if attribute not in self._known:
            key = cache_key("can", self._document, attribute)
            kept = self._kept.get(key)
            if kept not in (b"yes", b"no"):
                kept = b"yes" if self._compiles(region, attribute) else b"no"
                self._kept.put(key, kept)
            self._known[attribute] = kept == b"yes"
        return self._known[attribute]

    def _compiles(self, region: AnyRegion, attribute: str) -> bool:
        try:
            lowered = lower_region(region, self._target, MOST_INSTRUCTIONS)
        except CyclopsError:
            return False
        if lowered is not None:
            self.lowered[attribute] = lowered
        return lowered is not None
