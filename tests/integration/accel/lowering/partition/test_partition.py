"""What stays on the host, and the reason that the report gives."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from accel.accelerator.contraction import contraction
from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.vta.document.vta_configuration import VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.lowering.ir.function_attributes import HOST_REASON, region_of
from examples.graph import Graph
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.models.build_models import lower

VTA = load_accelerator("vta")


def reasons(model: onnx.ModelProto, accelerator: Accelerator = VTA) -> list[str]:
    functions = lower(model, accelerator, "partition").functions.values()
    return [str(f.attrs[HOST_REASON]) for f in functions if f.attrs is not None and HOST_REASON in f.attrs]


def test_nothing_stays_without_a_reason() -> None:
    assert reasons(conv_model(Conv(16, 16, 8, 8))) == []


def test_a_buffer_too_small_for_one_tile_of_the_layer() -> None:
    tiny = vta_accelerator(VtaConfig(LOG_UOP_BUFF_SIZE=2), name="tiny", title="Tiny")
    (reason,) = reasons(dense_model(Dense(4, 20, 20)), tiny)
    assert reason == "no tile of it fits the scratchpads of Tiny"


def test_scales_too_far_apart_to_add() -> None:
    graph = Graph("addition")
    zero, shape = np.array(0, np.int8), (1, 16, 4, 4)
    terms = [
        graph.dequantize(graph.input(name, shape, TensorProto.INT8), scale, zero)
        for name, scale in (("a", 2.0**-11), ("b", 2.0**4))
    ]
    graph.output(graph.quantize(graph.node("Add", "sum", terms), 2.0**-1, zero, "y"), shape, TensorProto.INT8)
    (reason,) = reasons(graph.model())
    assert reason == "the operands' scales lie too far apart for weights of 14 bits"


@pytest.mark.parametrize("preset", ["vta", "vta-8", "vta-32", "vta-small"])
def test_tiles_fit_and_cover(preset: str) -> None:
    accelerator = load_accelerator(preset)
    module = lower(conv_model(Conv(100, 70, 37, 23, strides=(2, 2))), accelerator, "partition")
    (region,) = (found for f in module.functions.values() if (found := region_of(f)) is not None)
    tiling, shape = region.tiling, region.shape
    assert tiling.out_pitch_h >= shape.out_height
    assert tiling.out_pitch_h % tiling.out_rows == 0 == tiling.out_pitch_w % tiling.out_columns
    tile = tiling.out_blocks * tiling.out_rows * tiling.out_columns * tiling.result_contexts
    assert tile <= contraction(accelerator).dst.memory.depth
