"""Cycles of ``gemmini-rocket`` beside those that FireSim measured, layer by layer, tiled by Gemmini's own library.

Its parameters were fitted to half of the layers; the errors that count are those of the other half. ``--most`` leaves
out larger layers, which take minutes. ``--places`` prints instead, for each program, the mean error of the fitted half
for each place in a line of the caches where its arrays may begin.
"""

import argparse
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from gemmini_library.measured_layers import Measured, Prediction, measured_layers, predictions, spread
from gemmini_library.measured_programs import alignment_of, is_product

from accel.catalog.load_accelerator import load_accelerator
from accel.isa.gemmini.document.gemmini_document import parameters_of
from accel.isa.gemmini.document.gemmini_parameters import LINE_BYTES, GemminiParameters

GOLDEN = Path(__file__).resolve().parents[2] / "shared" / "golden" / "gemmini" / "firesim_layers.json"


def _row(each: Prediction) -> str:
    shape, layer = " ".join(str(value) for value in each.layer.shape), each.layer
    half = "fitted" if layer.fitted else "other"
    return (
        f"{layer.number:4} {shape:34} {half:7} {layer.cycles:11,} {each.accelerator:11,} {each.cycles:11,} "
        f"{each.error:+7.1%}"
    )


def _print_places(layers: list[Measured], parameters: GemminiParameters) -> None:
    for (build, product), program in groupby(layers, key=lambda layer: (layer.build, is_product(layer.shape))):
        chosen = [layer for layer in program if layer.fitted]
        if not chosen:
            continue
        print(*build, "products" if product else "convolutions", end=":")
        for place in range(0, LINE_BYTES, alignment_of(chosen[0].shape)):
            found = predictions([replace(layer, from_line=place) for layer in chosen], parameters)
            print(f" {place} {sum(abs(each.error) for each in found) / len(found):.1%}", end="", flush=True)
        print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1 << 60, help="largest measured cycles of a layer")
    parser.add_argument("--half", choices=("fitted", "other"), help="one half alone")
    parser.add_argument("--places", action="store_true", help="where the arrays of each program may begin")
    arguments = parser.parse_args()
    if not GOLDEN.is_file():
        print("the measured layers are not there")
        return
    layers = [
        layer
        for layer in measured_layers(GOLDEN)
        if layer.cycles <= arguments.most and arguments.half in {None, "fitted" if layer.fitted else "other"}
    ]
    parameters = parameters_of(load_accelerator("gemmini-rocket"))
    if arguments.places:
        _print_places(layers, parameters)
        return
    print(f"{'':4} {'N C K P Q R S stride dilation':34} {'half':7} {'FPGA':>11} {'alone':>11} {'with both':>11}")
    found = predictions(layers, parameters)
    for each in found:
        print(_row(each))
    for fitted, name in ((True, "fitted"), (False, "other")):
        half = [each for each in found if each.layer.fitted == fitted]
        if half:
            median, most, worst = spread(half)
            print(f"{name}: {len(half)} layers, median {median:.1f}%, 90th percentile {most:.1f}%, worst {worst:.1f}%")


if __name__ == "__main__":
    main()
