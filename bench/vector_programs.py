"""How near vector programs come to their bounds: single operators of several shapes, and blocks of transformers.

Each vector program is timed as a launch by itself, and its cycles are given as multiples of what its statements need
however it is cut: of lanes, reads and writes alone, and of the bound, which knows latencies and what waits for operands
too (``accel/lowering/vector/tiles/program_bounds.py``). Beside them stand cycles of its units.

``python bench/vector_programs.py [PATTERN] [--accelerator NAME]``: of the cases that a pattern is found in, the worst
programs first.
"""

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.compilation import Compilation, CompilationInputs
from accel.driver.compile_stages import TO_PARTITION, pack_graph
from accel.driver.run_options import Options
from accel.driver.stage_chain import Unobserved
from accel.errors import CyclopsError
from accel.frontend.read.load_model import load_model
from accel.isa.decode import decode
from accel.isa.family_registry import arrangement_of, family_of
from accel.lowering.ir.function_attributes import LAUNCHES, dump_region, load_launches, region_of
from accel.lowering.ir.host_runs import LaunchRun, split_main
from accel.lowering.pipeline import lower_region, region_words
from accel.lowering.vector.tiles.program_bounds import program_bound
from accel.region.kinds import VectorRegion
from accel.report.provenance import NO_SOURCES, provenance
from examples.transformers.builder import Tokens
from examples.transformers.decoders import gpt2_block, llama_block
from examples.transformers.encoders import bert, bert_tiny, vit
from examples.transformers.images import convnext, mlp_mixer

Build = Callable[[], onnx.ModelProto]
Shape = tuple[int, ...]
_MOST = 1_000_000  # instructions of a launch
_ROWS: tuple[Shape, ...] = ((1, 128, 768), (1, 197, 192), (1, 50, 100), (1, 7, 33), (3, 200, 65))
_IMAGES: tuple[Shape, ...] = ((1, 32, 56, 56), (1, 64, 14, 14), (1, 3, 33, 35))


@dataclass(frozen=True)
class Measured:
    """A vector program: its launch's name, how often there is one like it, its cycles, bounds and units."""

    case: str
    name: str
    count: int
    cycles: int
    throughput: float
    bound: float
    busy: dict[str, int]
    tile: Shape
    extents: Shape


Make = Callable[[Tokens, str, list[str]], str]


def _layer_norm(width: int) -> Make:
    return lambda net, x, _: net.layer_norm(x, width)


def _rms_norm(width: int) -> Make:
    return lambda net, x, _: net.rms_norm(x, width)


def _average_pool(net: Tokens, x: str, _more: list[str]) -> str:
    return net.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])


def _single(shape: Shape, make: Make, more: Sequence[Shape] = ()) -> Build:
    """A model of one operator, whose inputs are of ``shape`` and of ``more``."""

    def built() -> onnx.ModelProto:
        net = Tokens("single", 0)
        x = net.input("x", shape)
        others = [net.input(f"x{number}", each) for number, each in enumerate(more)]
        net.graph.node("Identity", "result", [make(net, x, others)], "y")
        net.graph.output("y", ())
        made = net.graph.unchecked()
        made.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
        return onnx.shape_inference.infer_shapes(made)

    return built


def _operators() -> Iterator[tuple[str, Build]]:
    for shape in _ROWS:
        width, at = shape[-1], "x".join(map(str, shape))
        column, row = (*shape[:-1], 1), (1,) * (len(shape) - 1) + (width,)
        yield f"softmax {at}", _single(shape, lambda net, x, _: net.node("Softmax", x, axis=-1))
        yield f"layer norm {at}", _single(shape, _layer_norm(width))
        yield f"RMS norm {at}", _single(shape, _rms_norm(width))
        yield f"GELU {at}", _single(shape, lambda net, x, _: net.gelu(x))
        yield f"SiLU {at}", _single(shape, lambda net, x, _: net.silu(x))
        yield f"add {at}", _single(shape, lambda net, x, more: net.node("Add", x, *more), [shape])
        yield f"mul by rows {at}", _single(shape, lambda net, x, more: net.node("Mul", x, *more), [column])
        yield f"mul by columns {at}", _single(shape, lambda net, x, more: net.node("Mul", x, *more), [row])
        yield f"mean {at}", _single(shape, lambda net, x, _: net.mean(x, 1, 1))
        yield f"transpose {at}", _single(shape, lambda net, x, _: net.transpose(net.silu(x), 0, 2, 1))
        yield f"quantise {at}", _single(shape, lambda net, x, _: net.node("Relu", x))
    for shape in _IMAGES:
        at = "x".join(map(str, shape))
        yield f"average pool {at}", _single(shape, _average_pool)
        yield f"global pool {at}", _single(shape, lambda net, x, _: net.node("GlobalAveragePool", x))


def cases() -> Iterator[tuple[str, Build]]:
    """Single operators of shapes of which some do not divide, then blocks of networks."""
    yield from _operators()
    yield "BERT tiny", bert_tiny
    yield "BERT base, a layer", lambda: bert(layers=1)
    yield "ViT tiny, a block", lambda: vit(layers=1)
    yield "GPT-2, a block", gpt2_block
    yield "Llama, a block", llama_block
    yield "MLP-Mixer, a block", lambda: mlp_mixer(layers=1)
    yield "ConvNeXt, small", lambda: convnext(depths=(1, 1, 1, 1), widths=(32, 64, 96, 128), image=64)


def measure(case: str, model: onnx.ModelProto, target: Target) -> list[Measured]:
    """Returns the vector programs of a model.

    Raises:
        CyclopsError: it cannot be compiled.
    """
    accelerator, options = target.accelerator, Options()
    family, arranged = family_of(accelerator), arrangement_of(accelerator)
    loaded = load_model(model.SerializeToString(), axes=options.axes)
    made_from = provenance(NO_SOURCES, accelerator, {})
    job = CompilationInputs(
        accelerator, target, options, loaded.info, loaded.model, None, {}, made_from, traces_passes=False
    )
    packed = pack_graph(TO_PARTITION.run(Compilation(job), Unobserved())).module
    infos = load_launches(str(packed["main"].attrs[LAUNCHES]))
    found: dict[str, Measured] = {}
    counts: dict[str, int] = {}
    for run in split_main(packed):
        region = region_of(packed[run.call.args[0]]) if isinstance(run, LaunchRun) else None
        if not isinstance(run, LaunchRun) or not isinstance(region, VectorRegion):
            continue
        key = dump_region(region)
        counts[key] = counts.get(key, 0) + 1
        lowered = None if key in found else lower_region(region, target, _MOST)
        if lowered is None:
            continue
        words = region_words(lowered, accelerator)
        timing = family.time(decode(accelerator, words if arranged is None else arranged(words)[0]), {})
        bound, info, program = program_bound(region.shape, target, region.views), infos[str(run.var.name)], region.shape
        busy = {unit: cycles for unit, cycles in timing.busy.items() if cycles} | {"bus": round(bound.bus)}
        found[key] = Measured(
            case, info.name, 1, timing.cycles, bound.throughput, bound.cycles, busy, program.tile, program.extents
        )  # fmt: skip
    return [Measured(**{**vars(each), "count": counts[key]}) for key, each in found.items()]


def _line(programs: Sequence[Measured]) -> str:
    """The programs of a case together."""
    sums = np.array([[each.cycles, each.throughput, each.bound] for each in programs]) * np.array(
        [[each.count] for each in programs]
    )
    cycles, throughput, bound = sums.sum(axis=0)
    worst = max(programs, key=lambda each: each.cycles / each.bound)
    figures = f"{programs[0].case:28}{cycles:10,.0f}{cycles / throughput:8.2f}{cycles / bound:8.2f}"
    return f"{figures}   {worst.cycles / worst.bound:.2f} {worst.name} ({worst.cycles:,} cycles)"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the cases, then the worst programs of all."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--accelerator", default="npu")
    parser.add_argument("--worst", type=int, default=20)
    given = parser.parse_args(arguments)
    target, every = Target(load_accelerator(given.accelerator)), list[Measured]()
    print(f"{'':28}{'cycles':>10}{'/lanes':>8}{'/bound':>8}   its worst program")
    for case, build in cases():
        if not re.search(given.pattern, case):
            continue
        try:
            programs = measure(case, build(), target)
        except CyclopsError as error:
            print(f"{case:28}{error}", flush=True)
            continue
        print(_line(programs) if programs else f"{case:28}no vector program", flush=True)
        every += programs
    print("\nthe worst")
    for each in sorted(every, key=lambda each: -each.cycles / each.bound)[: given.worst]:
        shares = ", ".join(f"{unit} {cycles:,}" for unit, cycles in each.busy.items())
        figures = f"{each.cycles / each.throughput:6.2f}{each.cycles / each.bound:6.2f}{each.cycles:9,}"
        print(f"{figures}  {each.case}: {each.name} {each.extents} in {each.tile}; {shares}")


if __name__ == "__main__":
    main()
