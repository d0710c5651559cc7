"""What trials of tilings win and take: cycles of whole programs as ``quick`` and ``timed`` jobs schedule them.

A ratio above 1 is what ``quick`` loses. Names are those of ``python -m examples``; without any, the four of MLPerf
Tiny, ResNet-18 and MobileNet V2. ``--accelerator`` is as for ``cyclops run``, and may be repeated.
"""

import argparse
import time

from tvm import ir

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.quantisation_scheme import requantisation
from accel.driver.trials.region_timer import RegionTimer
from accel.driver.trials.trial_timer import TrialTimer
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.quantize.quantize_model import ensure_quantised
from accel.frontend.quantize.scale_grid import Scheme
from accel.isa.family_registry import arrangement_of, family_of
from accel.lowering.codegen.program_linking import emit
from accel.lowering.packing.graph_packing import pack
from accel.lowering.partition.autotune import Measure
from accel.lowering.partition.graph_partition import partition
from accel.lowering.pipeline import REGION_STAGES
from accel.simulate.engine import simulate
from examples.networks import NETWORKS, build

_USUAL = ["autoencoder", "keyword_spotting", "resnet8", "visual_wake_words", "resnet18", "mobilenet_v2"]
_ACCELERATORS = ["vta", "gemmini", "output-stationary"]  # one of each family


def integer_model(network: str, target: Target) -> ir.IRModule:
    requantize, scales = requantisation(target)
    return import_integer_model(ensure_quantised(build(network), scheme=Scheme(scales)), requantize=requantize).module


def planned(module: ir.IRModule, target: Target, measure: Measure | None) -> tuple[ir.IRModule, float]:
    """The module as partition leaves it, and the seconds that this takes."""
    begin = time.perf_counter()
    chosen = partition(module, target, family_of(target.accelerator).tiling_cost, measure)
    return chosen, time.perf_counter() - begin


def cycles_of(chosen: ir.IRModule, target: Target) -> int:
    module = pack(chosen, target)
    for stage in REGION_STAGES:
        module = stage.run(module, target)
    return simulate(emit(module, target.accelerator, arrangement_of(target.accelerator)), {}, function=False).cycles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--accelerator", action="append")
    given = parser.parse_args()
    print(f"{'accelerator':18} {'network':18} {'quick':>12} {'timed':>12} {'ratio':>7} {'trials s':>8}")
    worst = 0.0
    for name in given.accelerator or _ACCELERATORS:
        target = Target(load_accelerator(name))
        for network in given.networks or _USUAL:
            module = integer_model(network, target)
            quick, planning = planned(module, target, None)
            timed, trying = planned(module, target, TrialTimer(RegionTimer(target), target).times)
            counts = [cycles_of(chosen, target) for chosen in (quick, timed)]
            worst = max(worst, counts[0] / counts[1])
            ratio = f"{counts[0] / counts[1]:7.4f} {trying - planning:8.2f}"
            print(f"{name:18} {network:18} {counts[0]:12,} {counts[1]:12,} {ratio}", flush=True)
    print(f"quick takes at most {worst:.4f} times the cycles")


if __name__ == "__main__":
    main()
