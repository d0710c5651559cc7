"""Where elementwise work runs: as a region of the accelerator, or on the host, with the reason."""

import math
from dataclasses import replace

from accel.lowering.attributes import Region
from accel.lowering.capabilities import Capabilities
from accel.lowering.composite import Composite
from accel.lowering.elementwise import PAIRS, Elementwise, weighable
from accel.lowering.epilogue import arranged, bounds_of, narrowings
from accel.lowering.geometry import Epilogue, Packed
from accel.lowering.lanes import by_identity, no_way_in, start_of
from accel.lowering.nearest import no_narrow_store
from accel.lowering.plan_lanes import lanes_tiling, ways_of
from accel.lowering.terms import Terms

_MOST = 127  # what a weight can be
_NAMES = {"sum": "sum", "max": "maximum", "min": "minimum", "product": "product"}


def elementwise_region(composite: Composite, terms: Terms, able: Capabilities) -> Region | str:
    """The region of a composite ``elementwise`` or ``add``, or why there is none."""
    epilogue = _ending(composite, able)
    obstacle = no_way_in(able) or _obstacle(terms, able)
    if obstacle or isinstance(epilogue, str):
        return obstacle or str(epilogue)
    gemm = able.gemm
    if len(composite.result) == 4:
        n, c, h, w = composite.result
        packed = Packed(math.ceil(n / gemm.rows), math.ceil(c / gemm.out_channels), h, w, h, w)
    else:
        m, k = composite.result
        rows = math.ceil(m / gemm.rows)
        packed = Packed(1, math.ceil(k / gemm.out_channels), 1, rows, 1, rows)
    inputs = (packed,) * len(terms.weights)
    shape = Elementwise(inputs, terms.weights, terms.combination, direct=bool(by_identity(able)))
    tiling = lanes_tiling(shape, able, epilogue)
    if tiling is None:
        return f"no tile of it fits the scratchpads of {able.accelerator.title}"
    return Region("elementwise", shape, epilogue, tiling)


def _obstacle(terms: Terms, able: Capabilities) -> str:
    """What the accelerator lacks to combine the operands; empty where nothing."""
    title, direct = able.accelerator.title, bool(by_identity(able))
    if not direct and any(abs(weight) > _MOST for weight in terms.weights):
        return "the operands' scales lie more than a factor 64 apart"
    ways = ways_of(able, PAIRS[terms.combination], terms.weights)
    needed = len(terms.weights) > 1 and (terms.combination != "sum" or direct)
    if needed and not ways.pair and not ways.difference:
        why = able.pair(PAIRS[terms.combination]).why
        return f"{title} has no {_NAMES[terms.combination]} of two accumulators{f': {why}' if why else ''}"
    if not direct:
        return ""
    for weight in terms.weights:
        if weight < 0 and not weighable(weight, ways):
            return f"{title} loads int8 into its accumulators but cannot negate it there"
        if not weighable(weight, ways):
            return f"{title} can neither multiply its accumulators by {weight}, nor make that of shifts left and sums"
    return ""


def _ending(composite: Composite, able: Capabilities) -> Epilogue | str:
    """The whole epilogue on the accelerator, or why it cannot be."""
    lacking = ""
    for epilogue in narrowings(composite, start_of(able) or "zero"):
        if able.store("int8", epilogue.scaling) is None:
            continue
        groups = arranged(epilogue.steps, able)
        if not isinstance(groups, str):
            return replace(epilogue, groups=groups)
        lacking = lacking or groups
    return lacking or no_narrow_store(bounds_of(composite), able)
