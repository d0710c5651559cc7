"""The loops against numpy: convolutions of tiles that are mostly padding, products after any block stride."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accel.catalog.load_accelerator import load_accelerator
from accel.errors import SimulationError
from accel.isa.decode import decode
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.function.stream_machine import StreamMachine
from accel.isa.gemmini.gemmini_family import FAMILY
from accel.isa.gemmini.timing.stream_timing import time_stream

ONE = 0x3F800000
INPUT, WEIGHTS, BIAS, OUTPUT = 1 << 17, 1 << 14, 1 << 12, 1 << 16
CHANNELS, WIDE = 16, 64  # of the tile; pixels of a row of the whole input


def head(stride=1, dilated=0):
    """Every ``stride`` pixel is read, and a dilated input gives every other result."""
    return [(0, stride << 16 | 4, (1 + dilated) << 48), (0, 2, ONE << 32 | 16)]


def conv_rows(*, k, o, stride, dilation, pads, dilated, activation=0):
    """loop_conv_ws of one tile: ``k`` and ``o`` rows and columns of the kernel and of the output; pads up, down, ..."""
    up, down, left, right = pads
    return [
        (16, CHANNELS << 48 | CHANNELS << 32 | WIDE << 16 | 1, stride << 48 | o[1] << 32 | o[0]),
        (17, k[1] << 48, 1 << 48 | o[0] << 32 | o[1] << 16 | CHANNELS),
        (18, k[0] << 48 | k[1] << 32 | CHANNELS << 16 | left, right << 48 | up << 32 | down << 24 | WIDE),
        (19, o[0] << 48 | dilation, CHANNELS << 48 | CHANNELS << 32 | CHANNELS << 16 | o[1]),
        (20, WEIGHTS, OUTPUT),
        (21, BIAS, INPUT),
        (15, 0, activation << 3 | dilated << 2 | 1),
    ]


def convolved(x, w, bias, *, k, o, stride, dilation, pads, dilated):
    """The tile's outputs (rows, columns, channels) as the sum over a padded, and dilated, input."""
    up, down, left, right = pads
    height = o[0] * stride + (k[0] - 1) * dilation
    width = o[1] * stride + (k[1] - 1) * dilation
    padded = np.zeros((height + 1, width + 1, CHANNELS), np.int64)
    step = 2 if dilated else 1
    rows, columns = max(height - up - down, 0), max(width - left - right, 0)
    inner = padded[up : up + rows : step, left : left + columns : step]
    inner[...] = x[: inner.shape[0], : inner.shape[1]]
    out = np.tile(bias.astype(np.int64), (*o, 1))
    for r in range(k[0]):
        for c in range(k[1]):
            begin_r, begin_c = r * dilation, c * dilation
            taken = padded[begin_r : begin_r + o[0] * stride : stride, begin_c : begin_c + o[1] * stride : stride]
            out += taken @ w[r, c]
    return np.clip(out, -128, 127).astype(np.int8)


def run_conv(shape):
    random = np.random.default_rng(1)
    x = random.integers(-4, 5, (WIDE, WIDE, CHANNELS)).astype(np.int8)
    # the rows of the kernel's weights lie as wide as the tile is
    w = random.integers(-4, 5, (shape["k"][1], shape["k"][1], CHANNELS, CHANNELS)).astype(np.int8)
    bias = random.integers(-50, 51, CHANNELS).astype("<i4")
    dram = np.zeros(1 << 18, np.uint8)
    for address, array in ((INPUT, x), (WEIGHTS, w), (BIAS, bias)):
        dram[address : address + array.nbytes] = array.reshape(-1).view(np.uint8)
    machine = StreamMachine(GemminiParameters())
    machine.run(np.array(head(shape["stride"], shape["dilated"]) + conv_rows(**shape), np.uint64), dram)
    size = shape["o"][0] * shape["o"][1] * CHANNELS
    got = dram[OUTPUT : OUTPUT + size].view(np.int8).reshape(*shape["o"], CHANNELS)
    return got, convolved(x.astype(np.int64), w.astype(np.int64), bias, **shape)


def test_a_tile_whose_kernel_row_sees_padding_alone_is_the_bias():
    got, want = run_conv({"k": (1, 5), "o": (1, 8), "stride": 1, "dilation": 1, "pads": (2, 0, 2, 2), "dilated": 0})
    assert np.array_equal(got, want)
    assert (got == got[0, 0]).all()


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_tile_with_any_padding_is_the_convolution(data):
    def pick(low, high):
        return data.draw(st.integers(low, high))

    dilated = pick(0, 1)
    columns = pick(1, 3)
    shape = {
        "k": (pick(1, columns), columns),  # the library's kernels are square, and a tile has some of the rows
        "o": (pick(1, 4), pick(1, 18)),
        "stride": 1 if dilated else pick(1, 3),
        "dilation": pick(1, 2),
        "pads": tuple(pick(0, 4) for _ in range(4)),
        "dilated": dilated,
    }
    for axis, (before, after) in enumerate((shape["pads"][:2], shape["pads"][2:])):
        inside = shape["o"][axis] * shape["stride"] + (shape["k"][axis] - 1) * shape["dilation"] - before - after
        # the input's first pixel lies in the tile or behind it, and the padding behind does not begin before it
        assume(inside + after >= 0)
        assume(not dilated or inside >= 0)
    got, want = run_conv(shape)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("activation", [1, 2, 3])
def test_any_activation_of_a_pooling_convolution_is_relu(activation):
    shape = {"k": (1, 1), "o": (4, 4), "stride": 1, "dilation": 1, "pads": (0, 0, 0, 0), "dilated": 0}
    rows = conv_rows(**shape, activation=activation)
    rows[1] = (17, 1 << 48 | 2 << 32 | 2 << 16 | 2 << 8, 1 << 48 | 2 << 32 | 2 << 16 | CHANNELS)
    rows[-1] = (15, 0, activation << 3)
    dram = np.zeros(1 << 18, np.uint8)
    dram[BIAS : BIAS + 64] = np.full(16, -7, "<i4").view(np.uint8)
    dram[OUTPUT : OUTPUT + 64] = 99
    StreamMachine(GemminiParameters()).run(np.array(head() + rows, np.uint64), dram)
    assert not dram[OUTPUT : OUTPUT + 2 * CHANNELS].any()


@pytest.mark.parametrize("block", [0, 5, 16, 32])
@pytest.mark.parametrize("transposed", [0, 1])
def test_a_product_does_not_depend_on_the_block_stride(block, transposed):
    random = np.random.default_rng(block)
    a, b = (random.integers(-3, 4, shape).astype(np.int8) for shape in ((16, 64), (64, 48)))
    d = random.integers(-30, 31, (16, 48)).astype("<i4")
    b_there = np.ascontiguousarray(b.T) if transposed else b
    dram = np.zeros(1 << 16, np.uint8)
    for address, array in ((4096, a), (8192, b_there), (16384, d)):
        dram[address : address + array.nbytes] = array.reshape(-1).view(np.uint8)
    loads = [(0, ONE << 32 | block << 16 | 1 << 8 | which << 3 | 1, row) for which, row in
             enumerate((64, b_there.shape[1], 192))]  # fmt: skip
    rows = [
        (0, 1 << 16 | 4 | transposed << 9, 1 << 48),
        *loads,
        (0, 2, ONE << 32 | 48),
        (9, 0, 4 << 32 | 3 << 16 | 1),
        (10, 4096, 8192),
        (11, 16384, 32768),
        (12, 64, b_there.shape[1]),
        (13, 48, 48),
        (8, 1, transposed << 1),
    ]
    words = np.array(rows, np.uint64)
    StreamMachine(GemminiParameters()).run(words, dram)
    want = np.clip(a.astype(int) @ b.astype(int) + d, -128, 127)
    assert np.array_equal(dram[32768 : 32768 + 16 * 48].view(np.int8).reshape(16, 48), want)
    assert time_stream(words, GemminiParameters()).cycles > 0


@pytest.mark.parametrize(
    ("rows", "kind", "said"),
    [
        ([(9, 0, 40 << 32 | 40 << 16 | 40), (8, 0, 0)], "memory-range", r"instruction 1 \(loop_ws\): its tiles take"),
        ([(15, 0, 1)], "field-range", r"instruction 0 \(loop_conv_ws\): the kernel's dilation is 0"),
        ([(2, 1 << 63, 1 << 48 | 1 << 32)], "dram-range", "DRAM address 0x8000000000000000, where there is none"),
        ([(2, 1 << 50, 1 << 48 | 1 << 32)], "dram-range", "address 0x4000000000000, where .* ends at 0x10000"),
        ([(2, 0xFFF8, 1 << 48 | 16 << 32)], "dram-range", "DRAM from address 0xfff8 to 0x10007, not all of which"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(rows, kind, said):
    with pytest.raises(SimulationError, match=said) as caught:
        FAMILY.check_launch(decode(load_accelerator("gemmini"), np.array(rows, np.uint64)), 1 << 16)
    assert caught.value.kind == kind
