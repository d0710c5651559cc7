"""Keys of regions by what their cycles follow from."""

import re
from dataclasses import replace

from accel.lowering.ir.function_attributes import dump_region
from accel.region.kinds import AnyRegion

_FLOAT = re.compile(r"-?\d+\.\d+(?:[eE][-+]?\d+)?")


def without_numbers(region: AnyRegion) -> str:
    """Returns the same for regions that differ in numbers alone, and in shapes of buffers that leave each address."""
    views = [None if view is None or view.is_plain else view.flat for view in region.views]
    while views and views[-1] is None:
        views.pop()
    return _FLOAT.sub("0.0", dump_region(replace(region, views=tuple(views))))
