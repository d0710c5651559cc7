"""Tilings priced for results that stay on the chip: what loads them is then no reason for one tiling or another."""

from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator
from accel.isa.family import KeepsResults
from accel.isa.family_registry import family_of
from accel.joining.resident_tensors import can_keep
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates, TilingCost
from accel.util.arrays import Float64


def staying_cost(accelerator: Accelerator) -> TilingCost | None:
    """Returns the price of tilings whose data is on the chip before; None where no result can stay there."""
    family = family_of(accelerator)
    if not can_keep(accelerator, family):
        return None
    assert isinstance(family, KeepsResults)
    cost, stays = family.tiling_cost, family.while_results_stay(accelerator)

    def price(
        candidates: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, _document: Accelerator
    ) -> Float64:
        return cost(candidates, conv, epilogue, gemm, stays)

    return price
