"""No job compiles what an earlier one compiled: not the same job, not one that is nearly the same, in no process."""

import json
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.util.content_cache import FolderCache
from tests.helpers.compilations import Compilations
from tests.helpers.marking import rest_all
from tests.integration.accel.lowering.partition.test_residual import block

MODEL = block((1, 32, 10, 10), 3).SerializeToString()


def other_weights() -> bytes:
    """The model with other weights, of the same scales: with others its regions would be others."""
    model = onnx.ModelProto.FromString(MODEL)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        tensor.CopyFrom(numpy_helper.from_array(np.roll(array, 1), tensor.name))
    return model.SerializeToString()


def retimed(name: str) -> Accelerator:
    """The preset with an answer of its DRAM one cycle later."""
    document = json.loads(load_accelerator(name).model_dump_json())
    document["dram"]["read_latency"] += 1
    if document["family"] == "gemmini":
        document["parameters"]["memory_latency"] = document["dram"]["read_latency"]
    return parse_accelerator({**document, "name": "retimed"})


def resized(name: str, less: int) -> Accelerator:
    """The preset with a smaller first buffer of int8."""
    document = json.loads(load_accelerator(name).model_dump_json())
    memory = next(memory for memory in document["memories"] if memory["dtype"] == "int8")
    memory["depth"] -= less
    if document["family"] == "gemmini":
        document["parameters"]["scratchpad_bytes"] = memory["depth"] * memory["shape"][0]
    return parse_accelerator({**document, "name": "resized"})


def compiled(name: str, folder: Path, less: int) -> dict[str, Counter[str]]:
    """Runs the job and those like it, in this process; returns what each has compiled."""
    found = dict[str, Counter[str]]()
    with pytest.MonkeyPatch.context() as monkeypatch:
        counts = Compilations(monkeypatch, folder / "compilations")
        for what, model, accelerator in (
            ("as it is", MODEL, load_accelerator(name)),
            ("again", MODEL, load_accelerator(name)),
            ("timing", MODEL, retimed(name)),
            ("size", MODEL, resized(name, less)),
            ("weights", other_weights(), load_accelerator(name)),
        ):
            out = folder / f"{what} {less}"
            out.mkdir()
            run_model(model, accelerator, Options(), out, cache=FolderCache(folder / "cache"))
            found[what] = counts.taken()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_all(["gemmini", "vta", "output-stationary"]))
def test_only_the_first_job_compiles(name: str, tmp_path: Path) -> None:
    """A key that reads too much of the document, or of the model, shows as a compilation of a later job."""
    jobs = compiled(name, tmp_path, 16)
    assert any(what.startswith("region ") for what in jobs["as it is"])  # or nothing is counted
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
        jobs |= {f"{job} in another process": found for job, found in _second(other, name, tmp_path).items()}
    before = set[str]()
    for job, found in jobs.items():
        regions = {what.removeprefix("region ") for what in found if what.startswith("region ")}
        assert not regions & before, job
        before |= regions | {what.removeprefix("taken ") for what in found if what.startswith("taken ")}
        others = [what for what in found if not what.startswith(("region ", "taken "))]
        assert job == "as it is" or not others, job


def _second(other: ProcessPoolExecutor, name: str, folder: Path) -> dict[str, Counter[str]]:
    return other.submit(compiled, name, folder, 32).result()
