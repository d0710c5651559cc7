"""The programs that measured the layers, as their sources have them.

Each network was one program for its convolutions and one for its products, which ran the layers one after another in
the same arrays: what the caches hold when a layer begins, those before it have left. The sources are
those of gemmini-rocc-tests: ``gemmini-data-collection/templates/conv_tilings.c`` at 570dff3d (arrays, padding, no bias)
and ``matmul_tilings.c`` at 928aba8c, ``layers/extract_data_csv.py`` at 6bae4f90 (the image is as large as the output
times the stride), ``include/gemmini.h`` at 570dff3d (no downsampling, no re-use) and ``gemmini_params.h`` at 928aba8c
(several pixels are never put into a row). The order is that of
the networks, in which the file has them, with other layers left out in each build.

Where the linker put the arrays is not recorded. Those of ``conv_tilings.c`` ask for no alignment, so the compiler gives
them that of a word, 8 bytes, and those of ``matmul_tilings.c`` for that of a row of the scratchpad, 16 bytes
(``gemmini_testutils.h`` ``row_align``): a row of 64 bytes then begins in one line and ends in the next. All arrays of a
program are as far from the beginning of a line, as their sizes are multiples of one; how far was found with the layers
that are fitted to (``gemmini_firesim.py --places``).
"""

from .library_streams import LibraryStream, Options, conv_stream, matmul_stream
from .library_tiling import Convolution, Memories

Shape = tuple[int, ...]  # N, C, K, P, Q, R, S, stride, dilation
BUILT = Memories()  # what the library was built for, whatever memories the search was given: its tiles say so
OPTIONS = Options(bias=False, pixels=False)
_BASE = 0x80100000
_IMAGE, _BIAS, _WEIGHTS = 40 * 40 * 2048, 2048 * 4, 2048 * 2048  # bytes of ``conv_tilings.c``'s arrays
_CONV_PLACES = (_BASE, _BASE + _IMAGE + _BIAS, _BASE + _IMAGE, _BASE + _IMAGE + _BIAS + _WEIGHTS)
_MATRIX = 10_000 * 10_000  # bytes of ``matmul_tilings.c``'s, of which a product uses the beginning
_MATMUL_PLACES = (_BASE, _BASE + _MATRIX, _BASE + 3 * _MATRIX, _BASE + 2 * _MATRIX)
# bytes from the beginning of a line to each array, by memories of the build: of convolutions and of products
FROM_LINE: dict[tuple[int, ...], tuple[int | None, int | None]] = {
    (512, 8128): (0, None),
    (784, 16704): (24, None),
    (1024, 16384): (None, 0),
    (1792, 16704): (32, None),
    (1792, 14464): (32, None),
    (256, 6912): (None, 16),
    (512, 9216): (None, 0),
    (3136, 16064): (48, 32),
    (3584, 14592): (48, 32),
    (2752, 30336): (8, None),
    (1376, 24896): (16, None),
    (1968, 20608): (24, None),
}
# input and output channels, output rows, kernel, stride; of a product depth, columns, rows
_PRODUCTS = ("768 768 128", "64 128 128", "128 64 128", "768 3072 128", "3072 768 128"), ("2048 1000 1",)
_CONVOLUTIONS = (
    (
        *("3 64 112 7 2", "64 64 56 1 1", "64 64 56 3 1", "64 256 56 1 1", "256 64 56 1 1", "256 128 56 1 1"),
        *("128 128 28 3 2", "128 512 28 1 1", "256 512 28 1 2", "512 128 28 1 1", "128 128 28 3 1", "512 256 28 1 1"),
        *("256 256 14 3 2", "256 1024 14 1 1", "512 1024 14 1 2", "1024 256 14 1 1", "256 256 14 3 1"),
        *("1024 512 14 1 1", "512 512 7 3 2", "512 2048 7 1 1", "1024 2048 7 1 2", "2048 512 7 1 1", "512 512 7 3 1"),
    ),
    (
        *("512 256 28 1 1", "256 256 28 3 1", "256 720 28 3 1", "256 36 28 3 1"),
        *("1024 256 14 1 1", "256 256 14 3 1", "256 720 14 3 1", "256 36 14 3 1"),
        *("2048 256 7 1 1", "256 256 7 3 1", "256 720 7 3 1", "256 36 7 3 1"),
        *("2048 256 4 3 2", "256 256 4 1 1", "256 256 4 3 1", "256 720 4 3 1", "256 36 4 3 1"),
        *("256 256 2 3 2", "256 256 2 1 1", "256 256 2 3 1", "256 720 2 3 1", "256 36 2 3 1"),
    ),
    (
        *("1 64 570 3 1", "64 64 568 3 1", "64 128 282 3 1", "128 128 280 3 1", "128 256 138 3 1", "256 256 136 3 1"),
        *("256 512 66 3 1", "512 512 64 3 1", "512 1024 30 3 1", "1024 1024 28 3 1", "1024 512 56 2 1"),
        *("1024 512 54 3 1", "512 512 52 3 1", "512 256 104 2 1", "512 256 102 3 1", "256 256 100 3 1"),
        *("256 128 200 2 1", "256 128 198 3 1", "128 128 196 3 1", "128 64 392 2 1", "128 64 390 3 1"),
        *("64 64 388 3 1", "64 2 388 1 1"),
    ),
)


def _shape(text: str) -> Shape:
    channels, outputs, rows, *rest = (int(value) for value in text.split())
    kernel, stride = rest or (1, 1)
    return 1, channels, outputs, rows, rows if rest else 1, kernel, kernel, stride, 1


PROGRAMS = tuple(tuple(_shape(text) for text in program) for program in (*_PRODUCTS, *_CONVOLUTIONS))


def programs_of(shapes: set[Shape]) -> list[tuple[Shape, ...]]:
    """Returns the programs that measured a build's layers: the fewest that have all of them.

    Raises:
        ValueError: there are none.
    """
    products = {shape for shape in shapes if is_product(shape)}
    found = []
    for wanted in (products, shapes - products):
        holding = [program for program in PROGRAMS if wanted <= set(program)]
        if wanted and not holding:
            raise ValueError(f"no program has all of {sorted(wanted)}")
        found += holding[:1] if wanted else []
    return found


def is_product(shape: Shape) -> bool:
    """Whether a layer ran as a product of matrices."""
    return shape[4] == shape[5] == shape[6] == 1


def convolution_of(shape: Shape) -> Convolution:
    """Returns the convolution that was run: padded by half a kernel, so that an even kernel has an output more."""
    batch, channels, outputs, rows, _, kernel, _, stride, _ = shape
    padding, size = kernel // 2, rows * stride
    out = (size + 2 * padding - kernel) // stride + 1
    return Convolution(batch, channels, outputs, out, out, kernel, stride, padding, size, size, may_downsample=False)


def alignment_of(shape: Shape) -> int:
    """Returns the bytes of which the addresses of a program's arrays are multiples."""
    return 16 if is_product(shape) else 8


def measured_stream(shape: Shape, from_line: int = 0) -> LibraryStream:
    """Returns what the library sent for a layer whose arrays begin so many bytes behind the beginning of a line."""
    if is_product(shape):
        batch, depth, columns, rows = shape[:4]
        places = [place + from_line for place in _MATMUL_PLACES]
        return matmul_stream(batch * rows, columns, depth, BUILT, OPTIONS, places=places)
    places = [place + from_line for place in _CONV_PLACES]
    return conv_stream(convolution_of(shape), BUILT, OPTIONS, places=places)
