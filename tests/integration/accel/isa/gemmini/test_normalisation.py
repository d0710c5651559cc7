"""Normalisations against I-BERT's formulas in numpy's wide integers, for values that int32 holds."""

import numpy as np
import pytest

from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.function.stream_machine import StreamMachine

ACC = 1 << 31
ONE = 0x3F800000
IN, OUT = 4096, 8192
QB, QC, QLN2, QLN2_INV = -60, 1500, 40, (1 << 16) // 40


def u32(value):
    return value & 0xFFFFFFFF


def f32(value):
    return int(np.array([value], np.float32).view(np.uint32)[0])


def config_norm(softmax):
    both = u32(QC) << 32 | u32(QB)
    return [
        (0, u32(QLN2) << 32 | softmax << 16 | 3, both),
        (0, u32(QLN2_INV) << 32 | 1 << 18 | softmax << 16 | 3, both),
    ]


def stored(data, act, commands, scale, softmax=0, **parameters):
    """One row of 32 columns, through ``commands`` (inner, last) and then stored as int8."""
    dram = np.zeros(1 << 14, np.uint8)
    dram[IN : IN + 128] = data.astype("<i4").view(np.uint8)
    words = [(0, ONE << 32 | 16 << 16 | 1 << 8 | 1, 0), (0, act << 2 | 2, f32(scale) << 32), *config_norm(softmax)]
    words += [(2, IN + 64 * b, 1 << 48 | 16 << 32 | ACC | 16 * b) for b in range(2)]
    for _, last in commands:  # the hardware turns the last block's command into the others'
        words.append((3, OUT, 1 << 48 | 32 << 32 | last << 26 | ACC))
    words.append((3, OUT, 1 << 48 | 32 << 32 | ACC))
    StreamMachine(GemminiParameters(**parameters)).run(np.array(words, np.uint64), dram)
    return dram[OUT : OUT + 32].view(np.int8)


def rounded(values, scale):
    return np.clip(np.rint(np.asarray(values).astype(np.float32) * np.float32(scale)), -128, 127).astype(np.int8)


def exponential(q):
    z = (-q * QLN2_INV) >> 16
    rest = q + z * QLN2
    return ((rest + QB) ** 2 + QC) >> z


@pytest.mark.parametrize("seed", range(5))
def test_igelu(seed):
    q = np.random.default_rng(seed).integers(-200, 200, 32)
    clipped = np.minimum(np.abs(q), -QB)
    polynomial = (clipped + QB) ** 2 + QC
    expected = q * (np.where(q < 0, -polynomial, polynomial) + QC)
    assert np.array_equal(stored(q, 3, [], 1e-4), rounded(expected, 1e-4))


@pytest.mark.parametrize("seed", range(5))
def test_layernorm(seed):
    q = np.random.default_rng(seed).integers(-300, 300, 32)
    mean = int(q.sum() / 32)  # towards zero, as in C
    deviation = int(np.sqrt(int(((q - mean) ** 2).sum() / 32)))
    normal = np.trunc((q - mean).astype(np.float32) * (np.float32(1) / np.float32(deviation)))
    assert np.array_equal(stored(q, 2, [(1, 2), (3, 4)], 30.0), rounded(normal, 30.0))


@pytest.mark.parametrize("seed", range(5))
def test_softmax(seed):
    q = np.random.default_rng(seed).integers(-100, 100, 32)
    shares = exponential(q - q.max())
    by = np.float32(127) / np.float32(shares.sum())
    assert np.array_equal(stored(q, 0, [(5, 5), (6, 7)], 1.0, softmax=1), rounded(rounded(shares, by), 1.0))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_a_design_that_has_them_rounds_and_scales_nothing_again(seed, scale):
    """What libgemmini truncates and multiplies by the scale of config_st, and AccumulatorScale.scala does not."""
    q = np.random.default_rng(seed).integers(-300, 300, 32)
    mean = int(q.sum() / 32)
    deviation = int(np.sqrt(int(((q - mean) ** 2).sum() / 32)))
    found = stored(q, 2, [(1, 2), (3, 4)], scale, normalizations=True)
    assert np.array_equal(found, rounded(q - mean, np.float32(1) / np.float32(deviation)))
    shares = exponential(q // 3 - (q // 3).max())
    found = stored(q // 3, 0, [(5, 5), (6, 7)], scale, softmax=1, normalizations=True)
    assert np.array_equal(found, rounded(shares, np.float32(127) / np.float32(shares.sum())))
