"""Cycles of our schedules against the original VTA stack's tuned ones: the same layers, the same timing rules.

The original's figures are Verilator runs of the tvm-vta Chisel RTL (configuration 1x16_i8w8a32_15_15_18_17, 64-bit bus,
read latency 16) on the streams that TVM 0.9 emits: ResNet-18's convolutions with TopHub's schedules, the others
with the best schedule of those tried. Ours are the timing model's. The original's convolutions of ResNet-18 do
what ours do; its other layers only shift and clip, where ours round too, which is one pass more.
"""

from collections.abc import Collection

import onnx

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.trials.region_timer import RegionTimer
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.quantize.quantize_model import quantize_model
from accel.isa.family_registry import arrangement_of, family_of
from accel.isa.vta.document.vta_configuration import Variant, VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.isa.vta.timing.vta_work import work_of
from accel.lowering.codegen.program_linking import emit
from accel.lowering.packing.graph_packing import pack
from accel.lowering.partition.graph_partition import partition
from accel.lowering.pipeline import REGION_STAGES
from accel.program.program_model import Program
from accel.simulate.engine import simulate
from examples import networks
from examples.conv224 import conv224
from examples.single import Conv, Dense, conv_model, dense_model

_NONE = (0, 0, 0, 0)


def _conv(channels: int, filters: int, size: int, kernel: int, stride: int) -> onnx.ModelProto:
    pads = (1, 1, 1, 1) if kernel == 3 else _NONE
    return conv_model(Conv(channels, filters, size, size, (kernel, kernel), (stride, stride), pads, relu=True))


def _passes(shift: int, *, bias: bool = False) -> onnx.ModelProto:
    """The convolution with shift, minimum and maximum behind it; only a shift to the right rounds."""
    return conv_model(Conv(16, 16, 224, 224, bias=bias, limit=127, shift=shift))


def _gemm(rows: int, size: int) -> onnx.ModelProto:
    return dense_model(Dense(rows, size, size, bias=False))


def layers() -> list[tuple[str, onnx.ModelProto, int]]:
    """Name, model, and the original stack's cycles."""
    return [
        ("C2 56x56 64->64 3x3", _conv(64, 64, 56, 3, 1), 543_219),
        ("C3 56x56 64->128 3x3 /2", _conv(64, 128, 56, 3, 2), 275_655),
        ("C4 56x56 64->128 1x1 /2", _conv(64, 128, 56, 1, 2), 94_907),
        ("C5 28x28 128->128 3x3", _conv(128, 128, 28, 3, 1), 498_728),
        ("C6 28x28 128->256 3x3 /2", _conv(128, 256, 28, 3, 2), 252_300),
        ("C7 28x28 128->256 1x1 /2", _conv(128, 256, 28, 1, 2), 55_725),
        ("C8 14x14 256->256 3x3", _conv(256, 256, 14, 3, 1), 476_714),
        ("C9 14x14 256->512 3x3 /2", _conv(256, 512, 14, 3, 2), 243_331),
        ("C10 14x14 256->512 1x1 /2", _conv(256, 512, 14, 1, 2), 41_327),
        ("C11 7x7 512->512 3x3", _conv(512, 512, 7, 3, 1), 469_044),
        ("224x224 16->16, 3 passes", _passes(shift=-1), 709_211),
        ("224x224 16->16, rounded", conv224(), 709_211),
        ("224x224 16->16, with bias", _passes(shift=9, bias=True), 709_211),
        ("GEMM 128x128x128", _gemm(128, 128), 19_738),
        ("GEMM 1x1024x1024", _gemm(1, 1024), 136_361),
        ("GEMM 16x1024x1024", _gemm(16, 1024), 213_441),
        ("GEMM 128x1024x1024", _gemm(128, 1024), 781_057),
    ]


def build(model: onnx.ModelProto, accelerator: Accelerator, host_nodes: Collection[str] = ()) -> Program:
    module, target = import_integer_model(model).module, Target(accelerator)
    cost = family_of(accelerator).tiling_cost
    module = pack(partition(module, target, cost, RegionTimer(target).times, dict.fromkeys(host_nodes, "")), target)
    for stage in REGION_STAGES:
        module = stage.run(module, target)
    return emit(module, accelerator, arrangement_of(accelerator))


def whole() -> None:
    """ResNet-18 but for its first convolution, as the original counts it, with acc_8bit loads and without."""
    model = quantize_model(networks.build("resnet18"))
    for acc_8bit in (True, False):
        accelerator = vta_accelerator(VtaConfig(), Variant(acc_8bit=acc_8bit))
        simulation = simulate(build(model, accelerator, ["/conv1/Conv"]), {}, function=False)
        bound = sum(work_of(launch.decoded).lower_bound for launch in simulation.launches)
        loads = "with" if acc_8bit else "without"
        print(
            f"ResNet-18, first convolution on the host, {loads} acc_8bit loads: {simulation.cycles:,} cycles in "
            f"{len(simulation.launches)} launches, {simulation.cycles / bound:.3f} of the bound; the original 9,940,000"
        )


def main() -> None:
    accelerator = load_accelerator("vta")
    print(f"{'layer':26} {'ours':>9} {'original':>9} {'ratio':>6} {'bound':>9} {'ours/bound':>10}")
    ratios = []
    for name, model, original in layers():
        simulation = simulate(build(model, accelerator), {}, function=False)
        bound = sum(work_of(launch.decoded).lower_bound for launch in simulation.launches)
        ratios.append(simulation.cycles / original)
        print(
            f"{name:26} {simulation.cycles:9,} {original:9,} {ratios[-1]:6.3f} {bound:9,} "
            f"{simulation.cycles / bound:10.3f}"
        )
    print(f"worst ratio {max(ratios):.3f}, best {min(ratios):.3f}; below 1 we are faster")
    whole()


if __name__ == "__main__":
    main()
