"""The presets of the family: what they are, what single instructions do, and whole layers, verified bit by bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel.accelerator.contraction import contraction
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.isa.explicit.clock import timing_decoupled, timing_in_order
from accel.isa.explicit.costs import costs_of
from accel.isa.explicit.document_function import ExplicitMachine
from accel.isa.explicit.explicit_family import FAMILY
from accel.isa.explicit.hazards import box_hazard_kernels
from accel.util.arrays import aligned_zeros
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.documents.explicit_documents import document, row, stream

PRESETS = ["mvin-mvout", "vector", "output-stationary"]


@pytest.mark.parametrize(
    ("name", "tile", "units"),
    [("mvin-mvout", (4, 4, 8), "array"), ("vector", (1, 64, 1), "vector"), ("output-stationary", (8, 8, 1), "array")],
)
def test_presets_contract(name, tile, units):
    accelerator = load_accelerator(name)
    gemm = contraction(accelerator)
    assert (gemm.rows, gemm.out_channels, gemm.in_channels) == tile
    assert gemm.instruction.unit == units
    assert not FAMILY.token_queues(accelerator)
    assert not FAMILY.timing_model(accelerator).calibrated


def test_mvin_matmul_mvout():
    accelerator, rng = load_accelerator("mvin-mvout"), np.random.default_rng(0)
    a, b = rng.integers(0, 256, (4, 8), np.uint8), rng.integers(-128, 128, (8, 4), np.int8)
    c, dram = rng.integers(-(1 << 30), 1 << 30, (4, 4), np.int32), aligned_zeros(256)
    dram[:128] = np.concatenate([a.ravel(), b.ravel().view(np.uint8), c.ravel().view(np.uint8)])
    decoded = stream(
        accelerator,
        [
            row("mvin_a", tile=3),
            row("mvin_b", tile=200, dram=32),
            row("mvin_c", tile=127, dram=64),
            row("matmul", a_tile=3, b_tile=200, c_tile=127),
            row("mvout", tile=127, dram=128),
        ],
    )
    ExplicitMachine(accelerator).run(decoded, dram)
    np.testing.assert_array_equal(
        dram[128:192].view(np.int32).reshape(4, 4), c + a.astype(np.int32) @ b.astype(np.int32)
    )
    timing = FAMILY.time(decoded, {})
    # one unit loads: 44 + 44 + 48; then 8 for the product and 8 for the result, each waiting for the one before
    assert timing.end.tolist() == [44, 88, 136, 144, 152]
    assert timing.waits["hazard"].tolist()[3:] == [136 - 89, 144 - 137]
    assert costs_of(decoded, "energy").tolist() == [8040, 8040, 16080, 278.4, 16080]


def test_a_vector_dot_product_and_its_narrowing():
    accelerator, rng = load_accelerator("vector"), np.random.default_rng(1)
    x, w = rng.integers(-128, 128, 9, np.int8), rng.integers(-128, 128, (9, 64), np.int8)
    dram = aligned_zeros(2048)
    dram[:9], dram[64:640] = x.view(np.uint8), w.ravel().view(np.uint8)
    decoded = stream(
        accelerator,
        [
            row("load_x", columns=9),
            row("load_w", dram=1, columns=3, rows=3, row_stride=3),
            row("vmac", op=1, acc=5, count=1),
            row("vmac", acc=5, count=9, x_step=1, w_step=1),
            row("valu", op=4, dst=5, count=1, imm=1 << 6),
            row("valu", op=7, dst=5, count=1, imm=7),
            row("valu", op=5, dst=5, count=1, imm=-128),
            row("valu", op=6, dst=5, count=1, imm=127),
            row("store_acc8", sram=5, dram=20),
        ],
    )
    ExplicitMachine(accelerator).run(decoded, dram)
    expected = np.clip((x.astype(np.int32) @ w.astype(np.int32) + 64) >> 7, -128, 127)
    np.testing.assert_array_equal(dram[1280:1344].view(np.int8), expected)


def test_an_outer_product_and_its_scaling():
    accelerator, rng = load_accelerator("output-stationary"), np.random.default_rng(2)
    a, b = rng.integers(-128, 128, (20, 8), np.int8), rng.integers(-128, 128, (20, 8), np.int8)
    dram = aligned_zeros(1024)
    dram[:160], dram[160:320] = a.ravel().view(np.uint8), b.ravel().view(np.uint8)
    scale = np.float32(0.0031)
    decoded = stream(
        accelerator,
        [
            row("load_a", columns=20),
            row("load_b", dram=160, rows=5, columns=4, row_stride=32),
            row("load_c", dram=512),
            row("multiply", k=20, a_step=1, b_step=1),
            row("store_scaled", dram=320, relu=1, scale=int(scale.view(np.uint32))),
        ],
    )
    ExplicitMachine(accelerator).run(decoded, dram)
    product = (a.astype(np.int32).T @ b.astype(np.int32)).astype(np.float32)
    expected = np.clip(np.rint(product * scale), 0, 127).astype(np.int8)
    np.testing.assert_array_equal(dram[320:384].view(np.int8).reshape(8, 8), expected)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kind", ["dense", "conv"])
def test_layers_are_verified_and_their_cycles_are_all_accounted_for(preset, kind, tmp_path: Path):
    layer: dict[str, Any] = {
        "dense": lambda: dense_model(Dense(rows=5, depth=70, columns=33, relu=True)),
        "conv": lambda: conv_model(Conv(channels=5, filters=9, height=7, width=6, strides=(2, 1))),
    }
    report = run_model(layer[kind]().SerializeToString(), load_accelerator(preset), Options(), tmp_path)
    assert report.verified
    assert report.macs.share == 1
    assert report.cycles == sum(layer.cycles for layer in report.layers)
    for found in report.layers:
        assert found.cycles >= found.lower_bound > 0


@pytest.mark.slow
def test_preparing_compiles_all_that_runs():
    for kind in ("in_order", "hazards", "tokens"):
        accelerator = document({"kind": kind})
        FAMILY.prepare(accelerator)
        decoded = stream(accelerator, [row("load_c"), row("nop")])
        FAMILY.time(decoded, {})
        checker = FAMILY.hazard_checker(accelerator, {}, 512)
        checker.check(decoded, aligned_zeros(512))
        FAMILY.machine(accelerator).run(decoded, aligned_zeros(512))
    for compiled in (
        timing_decoupled.run_decoupled,
        timing_in_order.run,
        box_hazard_kernels.find_unwritten,
        box_hazard_kernels.find_races,
    ):
        assert len(compiled.compiled_for) == 1
    assert len(box_hazard_kernels.order_launch.compiled_for) == 1
