"""Cycles of the programs that are compiled here beside those of Gemmini's own library, layer by layer.

The layers are those that FireSim measured. Both run on ``gemmini-rocket`` with the memories that the row names, with
the same processor and memory behind it, and each finds the L2 as the document says: the library is built for those
memories, its arrays begin at a line of the caches, and the cycles in which it looks for a tile are left out. The
measured cycles stand beside; they are of the library built for a scratchpad of 256 KiB and 64 KiB of accumulators
(``gemmini_library/measured_programs.py``), which ``--built`` takes for both. ``--most`` leaves out larger layers, which
take minutes. A layer whose patches the host lays out is marked with ``*``.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from gemmini_library.compiled_layers import compiled, with_memories
from gemmini_library.library_streams import LibraryStream, conv_stream, matmul_stream
from gemmini_library.library_tiling import Memories
from gemmini_library.measured_layers import measured_layers
from gemmini_library.measured_programs import BUILT, OPTIONS, Shape, convolution_of, is_product

from accel.catalog.load_accelerator import load_accelerator
from accel.isa.gemmini.document.gemmini_document import parameters_of
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.timing.stream_timing import cycles_of

GOLDEN = Path(__file__).resolve().parents[2] / "shared" / "golden" / "gemmini" / "firesim_layers.json"


def library_stream(shape: Shape, memories: Memories) -> LibraryStream:
    """Returns what the library sends for a layer, built for these memories."""
    if is_product(shape):
        batch, depth, columns, rows = shape[:4]
        return matmul_stream(batch * rows, columns, depth, memories, OPTIONS)
    return conv_stream(convolution_of(shape), memories, OPTIONS)


def both(shape: Shape, memories: Memories) -> tuple[int, int, str, bool]:
    """Returns our cycles, the library's, our regions, and whether the host lays patches out."""
    accelerator = with_memories(load_accelerator("gemmini-rocket"), memories)
    parameters = parameters_of(accelerator)
    library = cycles_of(library_stream(shape, memories).words, parameters, LaunchContext.fresh(parameters))
    ours = compiled(shape, accelerator)
    return ours.cycles, library, "\n".join(ours.regions.values()), ours.unfolded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1 << 60, help="largest measured cycles of a layer")
    parser.add_argument("--least", type=int, default=0, help="smallest measured cycles of a layer")
    parser.add_argument("--built", action="store_true", help="with the memories that the library was built for")
    parser.add_argument("--regions", action="store_true", help="print what each layer is compiled as")
    parser.add_argument("--rows", type=int, nargs="*", help="these rows of the file alone")
    arguments = parser.parse_args()
    if not GOLDEN.is_file():
        print("the measured layers are not there")
        return
    print(f"{'':4} {'N C K P Q R S stride dilation':34} {'ours':>11} {'library':>11} {'ratio':>6} {'measured':>11}")
    ratios = []
    known: dict[tuple[Shape, Memories], tuple[int, int, str, bool]] = {}
    for layer in measured_layers(GOLDEN):
        chosen = arguments.rows is None or layer.number in arguments.rows
        if not chosen or not arguments.least <= layer.cycles <= arguments.most:
            continue
        accumulator, scratchpad = layer.build
        memories = BUILT if arguments.built else Memories(BUILT.dim, scratchpad, accumulator)
        began, key = time.perf_counter(), (layer.shape, memories)
        if key not in known:
            known[key] = both(*key)
        ours, library, regions, unfolded = known[key]
        ratios.append(ours / library)
        shape = " ".join(str(value) for value in layer.shape)
        mark, seconds = "*" if unfolded else " ", time.perf_counter() - began
        print(
            f"{layer.number:4} {shape:34} {ours:11,} {library:11,} {ratios[-1]:6.3f}{mark}{layer.cycles:11,} "
            f"{seconds:6.1f} s",
            flush=True,
        )
        if arguments.regions:
            print(regions)
    if ratios:
        share = sum(ratio <= 1 for ratio in ratios) / len(ratios)
        print(f"{len(ratios)} layers: {share:.1%} at most the library's, median ratio {np.median(ratios):.3f}")


if __name__ == "__main__":
    main()
