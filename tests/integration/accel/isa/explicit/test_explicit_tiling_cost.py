"""What the planner is told that tilings cost, against what they take."""

import numpy as np
import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.job_stages import requantisation
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.quantize.quantize_model import ensure_quantised
from accel.isa.explicit.document_tiling_cost import tiling_cost
from accel.lowering.codegen.program_linking import emit
from accel.lowering.packing.graph_packing import pack
from accel.lowering.partition.graph_partition import partition
from accel.lowering.pipeline import REGION_STAGES
from accel.simulate.engine import simulate
from examples.single import Conv, conv_model
from tests.reference.host import draw_inputs


@pytest.mark.parametrize("preset", ["mvin-mvout", "vector", "output-stationary"])
def test_the_price_of_the_chosen_tiling_is_near_its_cycles(preset):
    accelerator = load_accelerator(preset)
    target = Target(accelerator)
    prices = []

    def recorded(candidates, *others):
        price = tiling_cost(candidates, *others)
        assert price.shape == candidates.out_rows.shape
        assert np.isfinite(price).all()
        assert (price > 0).all()
        prices.append(price.min())
        return price

    model = conv_model(Conv(channels=24, filters=32, height=12, width=12))
    requantize, scales = requantisation(target)
    module = import_integer_model(ensure_quantised(model, scales=scales), requantize=requantize).module
    module = pack(partition(module, target, recorded), target)
    for stage in REGION_STAGES:
        module = stage.run(module, target)
    program = emit(module, accelerator)
    simulation = simulate(program, dict(zip(program.inputs, draw_inputs(model).values(), strict=True)), function=False)
    assert 0.4 < min(prices) / simulation.cycles < 2.5
