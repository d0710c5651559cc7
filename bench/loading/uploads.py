"""Uploads of models of 100 MB: what the api's memory does meanwhile."""

import asyncio
import time

import numpy as np
from loading.connection import Connection
from loading.figures import MB, heading, row, within
from loading.service import Service
from loading.usage import Memory, Watched
from onnx import TensorProto, helper, numpy_helper

_MEMORY_MB = 150.0
_DRIFT_MB = 10.0
_SIDE = 5_000  # of a matrix of float32: 100 MB
_CHUNK = 1 << 18
_MARK = b"here is the mark"


def large_model() -> bytearray:
    """A matrix product with random weights of 100 MB, and a text in it that may be replaced."""
    weights = np.random.default_rng(0).standard_normal((_SIDE, _SIDE), np.float32)
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, _SIDE)) for name in ("x", "y")]
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    graph = helper.make_graph([node], "large", tensors[:1], tensors[1:], [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.doc_string = _MARK.decode()
    return bytearray(model.SerializeToString())


async def _upload(service: Service, model: bytes) -> float:
    """Seconds until the answer."""
    connection = await Connection.to(service.port)
    begin = time.perf_counter()
    chunks = [model[at : at + _CHUNK] for at in range(0, len(model), _CHUNK)]
    answer = await connection.upload("/v1/models", chunks)
    connection.close()
    if answer.status != 201:
        raise RuntimeError(f"{answer.status}: {answer.body!r}")
    return time.perf_counter() - begin


def _variants(count: int) -> list[bytes]:
    model = large_model()
    place = model.index(_MARK)
    found = []
    for number in range(count):
        model[place : place + len(_MARK)] = f"{number:0{len(_MARK)}}".encode()
        found.append(bytes(model))
    return found


async def _series(service: Service, models: list[bytes], at_once: int) -> tuple[list[float], Memory]:
    """Upload them, so many at once; gives the seconds of each, and the most memory that the api had."""
    turns = asyncio.Semaphore(at_once)

    async def one(model: bytes) -> float:
        async with turns:
            return await _upload(service, model)

    with Watched(service.api) as watched:
        seconds = await asyncio.gather(*(one(model) for model in models))
    return seconds, watched.most


async def uploads(service: Service, serial: int, at_once: int) -> None:
    """Print the table."""
    models = _variants(serial + 2 * at_once)
    heading(f"uploads of models of {len(models[0]) / MB:.0f} MB")
    row("", "seconds", "rss MB", "pss MB", "most rss")
    watched = Watched(service.api)
    rest = watched.now()
    row("at rest", "", f"{rest.rss / MB:.1f}", f"{rest.pss / MB:.1f}")
    most, after = [], []
    groups = [[model] for model in models[:serial]] + [models[serial : serial + at_once], models[serial + at_once :]]
    for group in groups:
        seconds, peak = await _series(service, group, len(group))
        now = watched.now()
        most.append(peak.rss)
        after.append(now.rss)
        name = "one" if len(group) == 1 else f"{len(group)} at once"
        row(name, f"{max(seconds):.1f}", f"{now.rss / MB:.1f}", f"{now.pss / MB:.1f}", f"{peak.rss / MB:.1f}")
    within("most that the api had", max(most) / MB, _MEMORY_MB, "MB")
    within("more at the end than after the first", (after[-1] - after[0]) / MB, _DRIFT_MB, "MB")
