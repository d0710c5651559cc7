"""The tiles and streams of Gemmini's own library, against what it chose and sent."""

import numpy as np
import pytest

from bench.gemmini_library.library_streams import Options, conv_stream, matmul_stream
from bench.gemmini_library.library_tiling import Convolution, Memories, conv_tiling, matmul_tiling
from bench.gemmini_library.measured_layers import measured_layers
from bench.gemmini_library.measured_programs import convolution_of
from tests.helpers.programs.gemmini_vectors import FOLDER, needs_gemmini_golden, trace

BUILT = Memories()
_ADDRESSES = {10, 11, 20, 21}


def layer(channels, outputs, size, kernel, stride):
    extent = (size - 1) * stride + kernel
    return Convolution(1, channels, outputs, size, size, kernel, stride, 0, extent, extent)


@pytest.mark.parametrize(
    ("arguments", "tile"),  # as the artifact of DOSA has them: kernel, columns, rows, input and output channels
    [
        ((3, 64, 112, 7, 2), (7, 7, 23, 22, 3, 16)),
        ((64, 64, 56, 1, 1), (1, 1, 23, 22, 64, 16)),
        ((256, 64, 56, 1, 1), (1, 1, 23, 22, 240, 16)),
        ((128, 128, 28, 3, 2), (3, 3, 23, 22, 48, 16)),
        ((256, 256, 14, 3, 2), (3, 3, 14, 14, 105, 32)),
        ((1024, 256, 14, 1, 1), (1, 1, 14, 14, 568, 32)),
        ((512, 512, 7, 3, 2), (3, 3, 7, 7, 113, 96)),
        ((512, 2048, 7, 1, 1), (1, 1, 7, 7, 512, 160)),
        ((2048, 512, 7, 1, 1), (1, 1, 7, 7, 624, 160)),
        ((256, 720, 4, 3, 1), (3, 3, 4, 4, 125, 112)),
        ((256, 256, 2, 3, 1), (3, 3, 2, 2, 128, 112)),
    ],
)
def test_a_convolution_is_tiled_as_the_library_tiled_it(arguments, tile):
    _, rows, columns, outputs, krows, kcols, inputs = conv_tiling(layer(*arguments), BUILT).extents
    assert (krows, kcols, columns, rows, inputs, outputs) == tile


@pytest.mark.parametrize(
    ("arguments", "tile"),
    [((128, 768, 768), (80, 80, 768)), ((128, 768, 3072), (80, 80, 816)), ((128, 128, 64), (80, 96, 64))],
)
def test_a_product_is_tiled_as_the_library_tiled_it(arguments, tile):
    assert tuple(16 * extent for extent in matmul_tiling(*arguments, BUILT).extents) == tile


@needs_gemmini_golden
@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("conv_perf", conv_stream(Convolution(4, 3, 32, 112, 112, 3, 2, 1, 224, 224), BUILT, Options(reuse=True))),
        ("tiled_matmul_ws_perf", matmul_stream(128, 256, 256, BUILT, Options(reuse=True))),
    ],
)
def test_a_stream_is_the_one_that_the_library_sent(name, sent):
    """All words but addresses, of which it is the same that are null."""
    recorded = trace(name)
    recorded = recorded[(recorded[:, 0] != 7) & (recorded[:, 0] < 126)]
    assert np.array_equal(sent.words[:, 0], recorded[:, 0])
    places = np.isin(recorded[:, 0], list(_ADDRESSES))
    assert np.array_equal(sent.words[~places], recorded[~places])
    assert np.array_equal(sent.words[places] == 0, recorded[places] == 0)


@pytest.mark.parametrize(
    ("rows", "kernel", "stride", "outputs"),
    [(56, 2, 1, 57), (14, 3, 1, 14), (7, 3, 2, 7), (112, 7, 2, 112), (7, 1, 2, 7)],
)
def test_a_measured_convolution_is_padded_by_half_a_kernel(rows, kernel, stride, outputs):
    """So says the program that measured: an even kernel has an output more than the layer's name."""
    layer = convolution_of((1, 64, 64, rows, rows, kernel, kernel, stride, 1))
    assert (layer.padding, layer.in_rows, layer.out_rows) == (kernel // 2, rows * stride, outputs)
    assert not layer.downsamples


@needs_gemmini_golden
def test_each_measured_layer_ran_behind_others_of_its_network():
    layers = measured_layers(FOLDER / "firesim_layers.json")
    first = {layer.shape for layer in layers if not layer.before}
    assert (1, 2048, 1000, 1, 1, 1, 1, 1, 1) in first  # ResNet-50's one product is a program of its own
    behind = {layer.before[-1] for layer in layers if layer.shape == (1, 256, 256, 14, 14, 3, 3, 1, 1)}
    assert behind == {(1, 1024, 256, 14, 14, 1, 1, 1, 1)}  # in both networks
    assert all(layer.shape not in layer.before for layer in layers)
