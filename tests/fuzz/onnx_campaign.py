"""Inspect mutated ONNX files as the limited process does, and count what comes of them.

``python -m tests.fuzz.onnx_campaign FIRST LAST SEED FOLDER`` prints the counts as JSON. FOLDER/case.onnx is always the
file at hand and FOLDER/case its number, so that whoever started this process knows which one killed it; some of those
that are accepted stay there as ``accepted-<case>.onnx``.
"""

import collections
import faulthandler
import functools
import json
import random
import sys
import tempfile
import time
from pathlib import Path

import onnx
from onnxruntime.quantization import QuantFormat

from accel.errors import CyclopsError
from examples.ds_cnn import keyword_spotting
from examples.resnet8 import resnet8
from examples.single import Conv, Dense, conv_model, dense_model
from service.http.problems import accel_types
from tests.fuzz.onnx_mutations import mutated
from tests.helpers.models.operator_models import (
    SIGNED,
    UNSIGNED,
    every_layer,
    quantised_dynamically,
    quantised_statically,
)
from worker.config.settings import Settings
from worker.inspection.model_files import model_of_files
from worker.inspection.task_arguments import ModelFiles, NamedFile
from worker.records.problem_details import LONGEST, problem_of
from worker.sandbox.resource_limits import apply_limits, inspection_limits

HANGS = 45  # seconds of a case
_KEPT = 25  # one in so many of the accepted


def peak_bytes() -> int:
    """Of this program; what getrusage says may be of the process that started it."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def main(first: int, last: int, seed: int, folder: Path) -> None:
    seeds = seed_models()
    settings = Settings(data=folder)
    apply_limits(inspection_limits(settings))
    told: collections.Counter[str] = collections.Counter()
    slowest = 0.0
    for case in range(first, last):
        chance = random.Random(f"{seed} {case}")
        data = mutated(chance.choice(seeds), chance)
        (folder / "case.onnx").write_bytes(data)
        (folder / "case").write_text(str(case))
        faulthandler.dump_traceback_later(HANGS, exit=True)
        begin = time.process_time()
        outcome = inspected(folder / "case.onnx", settings)
        slowest = max(slowest, time.process_time() - begin)
        told[outcome] += 1
        if outcome == "accepted" and told["accepted"] % _KEPT == 1:
            (folder / "case.onnx").rename(folder / f"accepted-{case}.onnx")
    faulthandler.cancel_dump_traceback_later()
    peak = peak_bytes()
    json.dump({"slowest": slowest, "peak": peak, "told": told}, sys.stdout)


def inspected(path: Path, settings: Settings) -> str:
    """The type of the problem, ``accepted``, or ``memory``; any other exception ends the campaign."""
    try:
        files = [NamedFile(path=path, name=path.name)]
        model_of_files(ModelFiles(files=files, model=path.with_suffix(".made")), settings).model_dump_json()
    except CyclopsError as error:
        return clear(error)
    except MemoryError:
        return "memory"
    return "accepted"


def clear(error: CyclopsError) -> str:
    """The error's type, if it says enough and not too much."""
    problem = problem_of(error)
    assert error.type in types(), error
    assert problem.field is not None, problem
    assert 0 < len(problem.detail) <= LONGEST, problem
    assert problem.model_dump_json()
    return error.type


@functools.cache
def types() -> frozenset[str]:
    return frozenset(accel_types())


def seed_models() -> list[onnx.ModelProto]:
    """Small networks: of floats, with quantize and dequantize around each layer, and of quantised operators."""
    layers = every_layer().model()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        quantised = [
            quantised_statically(layers, folder, types, form)
            for types, form in (((UNSIGNED, SIGNED), QuantFormat.QOperator), ((SIGNED, SIGNED), QuantFormat.QDQ))
        ]
        dynamic = quantised_dynamically(layers, folder, UNSIGNED)
    return [
        layers, *quantised, dynamic, resnet8(), keyword_spotting(batch_norm=True),
        conv_model(Conv(16, 16, 8, 8, relu=True)), dense_model(Dense(3, 48, 40)),
    ]  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
