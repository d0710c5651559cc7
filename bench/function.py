"""Multiply-accumulates a second of the functional engine on ResNet-18's convolutions, warm, in one thread.

Everything of the engine counts: decoding, bounds, loads, GEMM, ALU, stores; the goal is half of onnxruntime's speed.
Beside it, of the same layer in the same run: the engine without the host's dot-product instructions; a plain scalar
loop nest that TVM compiles, as the original functional simulator loops over micro-ops; and onnxruntime's QLinearConv,
uint8 x int8. All four must compute the same numbers. Weights are even and biases odd, so that no sum lies halfway
between two results, where onnxruntime rounds to even and VTA's add-and-shift rounds up.
"""

import accel  # noqa: F401  isort: skip - before onnxruntime, which it keeps from reporting

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper, numpy_helper
from schedules import build, layers
from tvm.script import tirx as T  # noqa: N812  TVM's own name for it

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.decode import decode
from accel.isa.kernels.kernel_library import host_cpu
from accel.isa.vta.function.dot_product import DotProduct
from accel.isa.vta.function.functional_table import Geometry
from accel.isa.vta.function.vta_machine import VtaMachine
from accel.program.program_model import Launch
from accel.simulate.engine import simulate
from accel.util.arrays import aligned_zeros

Array = npt.NDArray[Any]
GOAL = 0.5  # of onnxruntime's speed
_BLOCK = 16
_RUNS = 7
HOST = tvm.target.Target({"kind": "llvm", "mcpu": host_cpu()})
_NO_VECTORS = ["-vectorize-loops=false", "-vectorize-slp=false"]  # LLVM's own, or the nest would not be scalar


@dataclass(frozen=True)
class Layer:
    """A convolution as arrays: x (1, c, h, w), weight (k, c, r, s), bias (k,); results are shifted, then clipped."""

    x: Array
    weight: Array
    bias: Array
    pad: int
    stride: int
    shift: int


def even_and_odd(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with even weights of seven bits, which no int16 sum of pairs overflows on any host, and odd biases."""
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.int8 and array.ndim == 4:
            tensor.CopyFrom(numpy_helper.from_array(np.clip(array, -62, 62) & ~np.int8(1), tensor.name))
        elif array.dtype == np.int32 and array.size > 1:
            tensor.CopyFrom(numpy_helper.from_array(array | 1, tensor.name))
    return model


def layer_of(model: onnx.ModelProto, x: Array) -> Layer:
    arrays = [numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
    weight = next(a for a in arrays if a.dtype == np.int8 and a.ndim == 4)
    bias = next(a for a in arrays if a.dtype == np.int32 and a.size > 1)
    scales = {t.name: float(numpy_helper.to_array(t)) for t in model.graph.initializer if t.data_type == 1}
    nodes = {node.op_type: node for node in model.graph.node}
    conv = {a.name: helper.get_attribute_value(a) for a in nodes["Conv"].attribute}
    inputs = {node.output[0]: scales[node.input[1]] for node in model.graph.node if node.op_type == "DequantizeLinear"}
    product = inputs[nodes["Conv"].input[0]] * inputs[nodes["Conv"].input[1]]
    shift = round(np.log2(scales[nodes["QuantizeLinear"].input[1]] / product))
    return Layer(x, weight, bias, conv["pads"][0], conv["strides"][0], shift)


def blocks(array: Array) -> Array:
    """Channels last, in blocks."""
    channels = array.shape[1]
    split = array.reshape(array.shape[0], channels // _BLOCK, _BLOCK, *array.shape[2:])
    return np.ascontiguousarray(np.moveaxis(split, 2, -1))


def scalar_nest(layer: Layer) -> Callable[[], Array]:
    """The layer as loops over 1 x 16 x 16 tiles, one product after the other; it gives (1, k, h, w)."""
    padded = np.pad(layer.x, ((0, 0), (0, 0), (layer.pad,) * 2, (layer.pad,) * 2))
    data = blocks(padded)[0]  # (ci, h, w, 16)
    filters, channels, rows, columns = layer.weight.shape
    wide = layer.weight.reshape(filters // _BLOCK, _BLOCK, channels // _BLOCK, _BLOCK, rows, columns)
    weights = np.ascontiguousarray(wide.transpose(0, 2, 4, 5, 1, 3))  # (co, ci, r, s, 16, 16)
    side = (padded.shape[2] - rows) // layer.stride + 1
    half, shift, stride = 1 << layer.shift - 1, layer.shift, layer.stride
    n_co, n_ci = weights.shape[:2]
    height, width = data.shape[1:3]

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def nest(
        x: T.Buffer((n_ci, height, width, _BLOCK), "int8"),  # type: ignore[valid-type]
        w: T.Buffer((n_co, n_ci, rows, columns, _BLOCK, _BLOCK), "int8"),  # type: ignore[valid-type]
        b: T.Buffer((n_co, _BLOCK), "int32"),  # type: ignore[valid-type]
        acc: T.Buffer((n_co, side, side, _BLOCK), "int32"),  # type: ignore[valid-type]
        y: T.Buffer((n_co, side, side, _BLOCK), "int8"),  # type: ignore[valid-type]
    ) -> None:
        T.func_attr({"global_symbol": "nest", "tirx.noalias": True})
        for co, oy, ox in T.grid(n_co, side, side):
            for o in T.serial(_BLOCK):
                acc[co, oy, ox, o] = b[co, o]
            for ci, r, s in T.grid(n_ci, rows, columns):
                for o in T.serial(_BLOCK):
                    for i in T.serial(_BLOCK):
                        acc[co, oy, ox, o] = acc[co, oy, ox, o] + T.Cast(
                            "int32", x[ci, oy * stride + r, ox * stride + s, i]
                        ) * T.Cast("int32", w[co, ci, r, s, o, i])
            for o in T.serial(_BLOCK):
                y[co, oy, ox, o] = T.Cast("int8", T.max(T.min(T.shift_right(acc[co, oy, ox, o] + half, shift), 127), 0))

    target = {"kind": "llvm", "mcpu": host_cpu(), "cl-opt": _NO_VECTORS}
    module = tvm.compile(tvm.IRModule({"nest": nest}), target=tvm.target.Target(target))
    vectors = re.findall(r"\bv?p(?:mul|madd|add|dp)\w*", str(module.mod.inspect_source("asm")))
    assert not vectors, f"the scalar nest has {vectors}"
    outputs = (np.zeros((n_co, side, side, _BLOCK), dtype) for dtype in (np.int32, np.int8))
    arguments = [tvm.runtime.tensor(a) for a in (data, weights, layer.bias.reshape(n_co, _BLOCK), *outputs)]
    run = module["nest"]

    def act() -> Array:
        run(*arguments)
        result: Array = arguments[-1].numpy().transpose(0, 3, 1, 2).reshape(1, filters, side, side)
        return result

    return act


def onnxruntime_conv(layer: Layer) -> Callable[[], Array]:
    """The layer as one QLinearConv, uint8 x int8, in one thread; the zero point makes int8 of uint8."""
    scales = {"x_scale": 1.0, "w_scale": 1.0, "y_scale": 2.0**layer.shift}
    constants = {name: np.array(value, np.float32) for name, value in scales.items()}
    constants |= {"x_zero": np.array(128, np.uint8), "w_zero": np.array(0, np.int8), "y_zero": np.array(0, np.uint8)}
    constants |= {"w": layer.weight, "b": layer.bias}
    names = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "b"]
    node = helper.make_node("QLinearConv", names, ["y"], pads=[layer.pad] * 4, strides=[layer.stride] * 2)
    graph = helper.make_graph(
        [node],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, layer.x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = (layer.x.astype(np.int16) + 128).astype(np.uint8)
    return lambda: np.asarray(session.run(None, {"x": x})[0])


class Engine:
    """The functional engine on a compiled layer, from instruction words to what the store wrote."""

    def __init__(self, accelerator: Accelerator, model: onnx.ModelProto, x: Array) -> None:
        self.program = build(model, accelerator)
        simulation = simulate(self.program, {"x": x}, timing=False)
        (self.result,) = simulation.outputs.values()
        self.launch = next(step for step in self.program.steps if isinstance(step, Launch))
        self.dram = aligned_zeros(self.program.dram_bytes)
        self.dram[: len(simulation.dram)] = simulation.dram
        self._accelerator = accelerator

    def runner(self, dot: DotProduct | None = None) -> Callable[[], Array]:
        """Run the launch again; gives the bytes of its outputs."""
        machine = VtaMachine(self._accelerator, dot=dot)
        words = self.program.words[self.launch.begin : self.launch.begin + self.launch.count]
        written = [self.program.segments[name] for name in self.launch.outputs]

        def act() -> Array:
            machine.run(decode(self._accelerator, words), self.dram)
            return np.concatenate([self.dram[s.address : s.address + s.nbytes] for s in written])

        return act


def least(act: Callable[[], Array]) -> float:
    """Seconds of the fastest of some runs, after one that does not count."""
    act()
    seconds = []
    for _ in range(_RUNS):
        begin = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def compare(accelerator: Accelerator, model: onnx.ModelProto) -> tuple[int, dict[str, float]]:
    """MACs of the layer, and seconds of each that computes it, all with the same result."""
    model = even_and_odd(model)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    layer = layer_of(model, x)
    engine = Engine(accelerator, model, x)
    portable = DotProduct.all_of_host(Geometry.of(accelerator), HOST)[-1]
    acts = {"engine": engine.runner(), "portable": engine.runner(portable)}
    acts |= {"scalar": scalar_nest(layer), "onnxruntime": onnxruntime_conv(layer)}
    results = {name: act() for name, act in acts.items()}
    assert np.array_equal(results["scalar"], engine.result), "the scalar nest differs"
    assert np.array_equal(np.minimum(results["onnxruntime"], 127), engine.result), "onnxruntime differs"
    assert np.array_equal(results["engine"], results["portable"]), "the portable kernel differs"
    return engine.launch.macs, {name: least(act) for name, act in acts.items()}


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    accelerator = load_accelerator("vta")
    host = DotProduct.of_host(Geometry.of(accelerator), HOST)
    print(f"the engine multiplies by {host.intrinsic or 'plain arithmetic'}; G MAC/s, one thread")
    head = ("engine", "portable", "scalar", "onnxruntime")
    print(f"{'layer':26} {'G MAC':>6}" + "".join(f" {name:>11}" for name in head) + "   /scalar  /onnxruntime")
    totals: dict[str, float] = dict.fromkeys(head, 0.0)
    work = 0
    for name, model, _ in layers()[:10]:
        macs, seconds = compare(accelerator, model)
        work += macs
        totals = {key: totals[key] + seconds[key] for key in head}
        print(row(name, macs, seconds))
    print(row("all ten", work, totals))
    ratio = totals["onnxruntime"] / totals["engine"]
    print(f"goal of {GOAL} of onnxruntime's speed over the ten: {'met' if ratio >= GOAL else 'missed'}, {ratio:.3f}")


def row(name: str, macs: int, seconds: dict[str, float]) -> str:
    speeds = "".join(f" {macs / value / 1e9:11.2f}" for value in seconds.values())
    ratios = [seconds[other] / seconds["engine"] for other in ("scalar", "onnxruntime")]
    return f"{name:26} {macs / 1e9:6.3f}{speeds} {ratios[0]:9.2f} {ratios[1]:13.3f}"


if __name__ == "__main__":
    main()
