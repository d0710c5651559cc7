"""What quantisation costs in accuracy: our int8 and onnxruntime's, SQNR in decibels of the outputs against float.

Every network has drawn weights, and structured inputs: some to calibrate with, others to measure on, the same for all
columns. ``s8 s8`` and ``u8 s8`` are ``onnxruntime.quantization.quantize_static``: QDQ, weights by channel, its default
calibration, masks of attention left in float, run by onnxruntime without optimisations. The columns of ours are models
as a job on that accelerator quantises them, run in the machine's integers by the reference that verifies jobs;
``:channel`` behind a preset has weights by channel and zero points wherever they help, which are options. ``qdq`` is
the first of ours run by onnxruntime. ``lead`` is that of the first over the better of onnxruntime's, ``best`` that of
the best of ours.
"""

import accel  # noqa: F401  isort: skip - before onnxruntime, which it keeps from reporting

import argparse
import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.numpy_helper import to_array
from onnxruntime import GraphOptimizationLevel
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from reduced.images import convnext, unet, yolo
from reduced.inputs import structured_inputs
from reduced.sequences import bert, gpt2, llama, tcn, vit

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.quantisation_scheme import requantisation, scheme_of
from accel.driver.run_options import QuantisationOptions
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.onnx_model.ort_session import session
from accel.frontend.quantize.quantize_model import ensure_quantised
from accel.frontend.read.load_model import load_model
from accel.lowering.analysis.capabilities import Capabilities
from accel.verify.output_comparison import reference_outputs, sqnr_db
from examples.networks import build

Array = npt.NDArray[Any]
Sample = dict[str, Array]

_CALIBRATION, _MEASURED = 8, 16  # samples
_LARGE = 224  # pixels, of images of which a quarter is measured
_SEEDS = 1000, 2000
_MASKED = -1e4
_AS_USUAL, _BY_CHANNEL = QuantisationOptions(), QuantisationOptions(weight_scales="channel", zero_points="all")
_REDUCED: dict[str, Callable[[int], onnx.ModelProto]] = {
    "convnext": convnext,
    "unet": unet,
    "yolo": yolo,
    "tcn": tcn,
    "bert": bert,
    "vit": vit,
    "gpt2": gpt2,
    "llama": llama,
}
NETWORKS = ("resnet8", "resnet18", "mobilenet_v2", "mobilenet_v3", "efficientnet_b0", "shufflenet_v2", *_REDUCED)


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    """The samples, one after the other."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = iter(samples)

    def get_next(self) -> Sample | None:
        return next(self._samples, None)


class Network:
    """A float model, what it is calibrated with and measured on, and its outputs there."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.calibration = structured_inputs(model, _CALIBRATION, _SEEDS[0])
        large = model.graph.input[0].type.tensor_type.shape.dim[-1].dim_value >= _LARGE
        stacks = structured_inputs(model, _MEASURED // 4 if large else _MEASURED, _SEEDS[1])
        self.samples = [dict(zip(stacks, values, strict=True)) for values in zip(*stacks.values(), strict=True)]
        self.expected = self._run(model)

    def onnxruntimes(self, activations: QuantType) -> float:
        """The SQNR of onnxruntime's static quantisation, weights int8 by channel."""
        samples = [dict(zip(self.calibration, v, strict=True)) for v in zip(*self.calibration.values(), strict=True)]
        with tempfile.TemporaryDirectory() as folder:
            source, ready, result = (str(Path(folder, name)) for name in ("a.onnx", "b.onnx", "c.onnx"))
            onnx.save(self.model, source)
            quant_pre_process(source, ready, skip_symbolic_shape=True)
            quantize_static(
                ready,
                result,
                _Reader(samples),
                quant_format=QuantFormat.QDQ,
                activation_type=activations,
                weight_type=QuantType.QInt8,
                per_channel=True,
                nodes_to_exclude=_masking(onnx.load(ready)),
            )
            return self._sqnr(self._run(onnx.load(result)))

    def ours(self, accelerator: str, *, integers: bool = True) -> float:
        """The SQNR of a job's outputs on a preset; or of its QDQ model run by onnxruntime."""
        preset, _, way = accelerator.partition(":")
        target = Target(load_accelerator(preset))
        requantize, _ = requantisation(target)
        scheme = scheme_of(target, _BY_CHANNEL if way else _AS_USUAL)
        loaded = load_model(self.model.SerializeToString()).model
        qdq = ensure_quantised(loaded, self.calibration, scheme=scheme)
        if not integers:
            return self._sqnr(self._run(qdq))
        imported = import_integer_model(qdq, requantize, balances=Capabilities.of(target).balances)
        inputs = [info.name for info in qdq.graph.input]
        return self._sqnr([reference_outputs(imported, [one[name] for name in inputs])[0] for one in self.samples])

    def _run(self, model: onnx.ModelProto) -> list[Array]:
        running = session(model, GraphOptimizationLevel.ORT_DISABLE_ALL)
        return [running.run(None, sample)[0] for sample in self.samples]

    def _sqnr(self, outputs: Sequence[Array]) -> float:
        return sqnr_db(np.stack(outputs), np.stack(self.expected))


def _masking(model: onnx.ModelProto) -> list[str]:
    """The nodes up to a softmax that have to do with a mask of very low numbers; quantised, all else is lost."""
    found = {t.name for t in model.graph.initializer if t.data_type == 1 and to_array(t).min(initial=0) < _MASKED}
    nodes = []
    for node in model.graph.node:
        if found.intersection(node.input):
            nodes.append(node.name)
            found.update(node.output if node.op_type != "Softmax" else ())
    return nodes


def network(name: str) -> Network:
    """One of ``NETWORKS``."""
    return Network(_REDUCED[name](0) if name in _REDUCED else build(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}; else all")
    parser.add_argument("--accelerators", default="gemmini,vta,vta:channel", help="presets, by commas")
    given = parser.parse_args()
    presets = given.accelerators.split(",")
    logging.disable(logging.WARNING)  # onnxruntime's, of vectors that have no channels
    columns = ["s8 s8", "u8 s8", "qdq", *presets, "lead", "best"]
    print(f"{'SQNR, dB':<18}" + "".join(f"{column:>12}" for column in columns) + f"{'seconds':>10}")
    for name in given.networks or NETWORKS:
        began, one = time.perf_counter(), network(name)
        theirs = [one.onnxruntimes(activations) for activations in (QuantType.QInt8, QuantType.QUInt8)]
        ours = [one.ours(presets[0], integers=False), *map(one.ours, presets)]
        row = [*theirs, *ours, ours[1] - max(theirs), max(ours[1:]) - max(theirs)]
        print(f"{name:<18}" + "".join(f"{db:>12.1f}" for db in row), f"{time.perf_counter() - began:>9.1f}", flush=True)


if __name__ == "__main__":
    main()
