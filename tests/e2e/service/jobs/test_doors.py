"""Every habit of exporters through every door: library, command line and HTTP, planned and run, say one thing.

A door that reads, quantises or reports in a way of its own would give another mapping, cycles or refusal.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QuantFormat

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.dry_run import plan_model
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import CyclopsError
from tests.conftest import Service
from tests.helpers.commands import cyclops_here
from tests.helpers.models.exported_files import (
    FILES,
    IMAGE,
    REFUSED,
    constant,
    convolved,
    info,
    model,
    node,
    untyped,
    weights,
)
from tests.helpers.models.operator_models import SIGNED, every_layer, quantised_statically
from tests.helpers.models.recurrent import recurrent_model

PRESET = "vta"
VTA = load_accelerator(PRESET)
Make = Callable[[], onnx.ModelProto]


def one(op: str, shape: tuple[int, ...], weight: tuple[int, ...], **attributes: Any) -> onnx.ModelProto:
    """A layer of drawn weights."""
    inits = [weights("w", *weight), weights("b", weight[1] * attributes.get("group", 1) if "T" in op else weight[0])]
    layer = node(op, ["x", "w", "b"], ["y"], name="layer", **attributes)
    return model([layer], [info("x", *shape)], [untyped("y")], inits)


def masked(mask: float) -> onnx.ModelProto:
    """Attention whose later tokens are masked."""
    above = np.triu(np.full((1, 4, 4), mask), 1)
    nodes = [
        node("MatMul", ["x", "w"], ["q"], name="query"),
        node("Transpose", ["x"], ["t"], name="turned", perm=[0, 2, 1]),
        node("MatMul", ["q", "t"], ["s"], name="scores"),
        node("Add", ["s", "mask"], ["m"], name="masked"),
        node("Softmax", ["m"], ["p"], name="shares", axis=-1),
        node("MatMul", ["p", "x"], ["v"], name="mixed"),
        node("MatMul", ["v", "w"], ["y"], name="out"),
    ]
    return model(nodes, [info("x", 1, 4, 8)], [untyped("y")], [weights("w", 8, 8), constant("mask", above, np.float32)])


def twice_named() -> onnx.ModelProto:
    """Nodes of one name, as renaming leaves them."""
    nodes = [node("Relu", ["x"], ["a"], name="act"), node("Conv", ["a", "w"], ["c"], name="act")]
    nodes.append(node("Relu", ["c"], ["y"], name="act"))
    return model(nodes, [info("x", *IMAGE)], [untyped("y")], [weights("w", 8, 4, 3, 3)])


def sharing() -> onnx.ModelProto:
    """Two layers of one int8 weight and uint8 data, as a quantised BERT's tied embeddings are."""
    inits = [
        constant("w", np.arange(-128, 128, 4).reshape(8, 8), np.int8),
        constant("ws", 0.005, np.float32),
        constant("w0", 0, np.int8),
        constant("s", 0.03, np.float32),
        constant("z", 120, np.uint8),
    ]
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q0"], name="in")]
    for at in range(2):
        nodes += [
            node("DequantizeLinear", [f"q{at}", "s", "z"], [f"d{at}"], name=f"data{at}"),
            node("DequantizeLinear", ["w", "ws", "w0"], [f"v{at}"], name=f"weight{at}"),
            node("MatMul", [f"d{at}", f"v{at}"], [f"m{at}"], name=f"product{at}"),
            node("QuantizeLinear", [f"m{at}", "s", "z"], [f"q{at + 1}"], name=f"result{at}"),
        ]
    nodes.append(node("DequantizeLinear", ["q2", "s", "z"], ["y"], name="out"))
    return model(nodes, [info("x", 4, 8)], [info("y", 4, 8)], inits)


def attention(**attributes: Any) -> onnx.ModelProto:
    """ONNX's own attention between two products."""
    nodes = [
        node("MatMul", ["x", "w"], ["q"], name="query"),
        node("Attention", ["q", "x", "x"], ["a"], name="attention", q_num_heads=2, kv_num_heads=2, **attributes),
        node("MatMul", ["a", "w"], ["y"], name="out"),
    ]
    made = model(nodes, [info("x", 1, 4, 8)], [untyped("y")], [weights("w", 8, 8)], opset=23)
    made.ir_version = 10
    return made


def grouped() -> onnx.ModelProto:
    """A group norm between two convolutions."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], name="before"),
        node("GroupNormalization", ["c", "g", "b"], ["n"], name="norm", num_groups=2),
        node("Conv", ["n", "v"], ["y"], name="behind"),
    ]
    inits = [weights("w", 8, 4, 3, 3), weights("g", 8), weights("b", 8), weights("v", 4, 8, 1, 1)]
    made = model(nodes, [info("x", *IMAGE)], [untyped("y")], inits, opset=21)
    made.ir_version = 10
    return made


def training(op: str, opset: int) -> onnx.ModelProto:
    """A node in training mode, as that opset states it."""
    inits = [weights("w", 4, 4, 1, 1), *(constant(name, np.ones(4), np.float32) for name in "gbmv")]
    inits += [constant("ratio", 0.5, np.float32), constant("mode", True, bool)]
    if op == "Dropout":
        trained = node(op, ["c", "ratio", "mode"], ["y"], name="trained")
    else:
        stated = {"training_mode": 1} if opset >= 14 else {}
        saved = ["m1", "v1"] if opset >= 14 else ["m1", "v1", "m2", "v2"]
        trained = node(op, ["c", *"gbmv"], ["y", *saved], name="trained", **stated)
    return model([node("Conv", ["x", "w"], ["c"]), trained], [info("x", *IMAGE)], [untyped("y")], inits, opset=opset)


def empty(side: str) -> onnx.ModelProto:
    """A model one of whose inputs or outputs has no elements."""
    if side == "input":
        return model([node("Relu", ["x"], ["y"], name="act")], [info("x", 0, 4)], [untyped("y")])
    nodes = [node("Relu", ["x"], ["a"]), node("Slice", ["a", "from", "to"], ["y"], name="cut")]
    return model(nodes, [info("x", 2, 4)], [untyped("y")], [constant("from", [0]), constant("to", [0])])


HABITS: dict[str, Make] = {
    **FILES,
    **{name: made for name, (made, _, _) in REFUSED.items()},
    "names twice": twice_named,
    "an empty input": lambda: empty("input"),
    "an empty output": lambda: empty("output"),
    "an optional input left out": lambda: convolved(
        node("Clip", ["x", "", "most"], ["k"]), inits=[constant("most", 1, np.float32)]
    ),
    **{f"{op}": lambda op=op: recurrent_model(op, steps=2) for op in ("LSTM", "GRU", "RNN")},  # type: ignore[misc]
    "LSTM, both ways": lambda: recurrent_model("LSTM", steps=2, direction="bidirectional", states=True),
    "GRU, lengths": lambda: recurrent_model("GRU", steps=3, lengths=[3, 1], linear_before_reset=1),
    "a volume": lambda: one("Conv", (1, 8, 3, 4, 4), (8, 8, 3, 3, 3), pads=[1] * 6),
    "a transposed volume": lambda: one("ConvTranspose", (1, 8, 3, 3, 3), (8, 4, 2, 2, 2), strides=[2] * 3, group=2),
    "a transposed image": lambda: one(
        "ConvTranspose", (1, 8, 4, 4), (8, 8, 3, 3), strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]
    ),
    "patches": lambda: one("Conv", (1, 3, 32, 32), (32, 3, 16, 16), strides=[16, 16]),
    "a mask of infinity": lambda: masked(-np.inf),
    "a mask of float16": lambda: masked(-65504.0),
    "a mask of -1e9": lambda: masked(-1e9),
    "a shared weight": sharing,
    "attention": lambda: attention(is_causal=1),
    "a group norm": grouped,
    **{
        f"{op} of opset {opset} that trains": lambda op=op, opset=opset: training(op, opset)  # type: ignore[misc]
        for op, opset in (("BatchNormalization", 9), ("BatchNormalization", 13), ("BatchNormalization", 15),
                          ("BatchNormalization", 20), ("Dropout", 12), ("Dropout", 17), ("Dropout", 22))
    },
}  # fmt: skip
QUANTISED = (QuantFormat.QDQ, QuantFormat.QOperator)
Said = dict[str, Any]


def library(data: bytes, folder: Path) -> tuple[Said, Said]:
    """The plan and the report."""

    def said(door: Callable[[], Any]) -> Said:
        try:
            return json.loads(door().model_dump_json())
        except CyclopsError as error:
            return {"type": f"/problems/{error.type}", "field": error.field, "detail": error.detail}

    (folder / "library").mkdir()
    planned = said(lambda: plan_model(data, VTA))
    return planned, said(lambda: run_model(data, VTA, Options(), folder / "library"))


def command_line(data: bytes, folder: Path) -> tuple[Said, Said]:
    """The plan and the report of ``cyclops plan`` and ``cyclops run``."""
    path = folder / "model.onnx"
    path.write_bytes(data)
    planned = cyclops_here("plan", path, "--accelerator", PRESET, "--json")
    done = cyclops_here("run", path, "--accelerator", PRESET, "--json", "--out", folder / "command")
    assert (planned.stderr, done.stderr) == ("", "")
    return json.loads(planned.stdout), json.loads(done.stdout)


def over_http(data: bytes, service: Service) -> tuple[Said, Said]:
    """The plan and the report of a job, or the problem: of the upload, or of the job."""
    client = service.client
    uploaded = client.post("/v1/models", content=data)
    if uploaded.status_code >= 400:
        assert uploaded.headers["content-type"] == "application/problem+json"
        assert uploaded.status_code == 422, uploaded.text
        return uploaded.json(), uploaded.json()
    asked = {"model": uploaded.json()["id"], "accelerator": PRESET}
    planned = client.post("/v1/jobs?dry_run=true", json=asked)
    assert planned.status_code in (200, 422), planned.text
    job = service.wait(client.post("/v1/jobs", json=asked).headers["location"])
    if job["state"] != "succeeded":
        return planned.json(), job["error"]
    return planned.json(), client.get(job["links"]["report"]).json()


def mapping(planned: Said) -> Said:
    """What a plan says of nodes and launches."""
    nodes = {each["name"]: (each["where"], each["launch"], each["reason"]) for each in planned["nodes"]}
    return {"nodes": nodes, "launches": planned["launches"], "warnings": planned["warnings"]}


def outcome(report: Said) -> Said:
    """What a report says of the same, and of its numbers."""
    kept = ("cycles", "verified", "host_ops", "quantisation", "warnings")
    return {name: report[name] for name in kept} | {"layers": [layer["name"] for layer in report["layers"]]}


def check(data: bytes, service: Service, folder: Path) -> bool:
    """Compares the doors; returns whether the model is accepted."""
    planned, done = library(data, folder)
    for other_plan, other_done in (command_line(data, folder), over_http(data, service)):
        if "detail" in planned:
            for told in (done, other_plan, other_done):
                for key in ("type", "field", "detail"):
                    assert told[key] == planned[key], told
            continue
        assert mapping(other_plan) == mapping(planned)
        assert outcome(other_done) == outcome(done)
    if "detail" in planned:
        return False
    assert done["verified"] is not False
    assert bool(done["layers"]) == (done["verified"] is True)
    assert [layer["name"] for layer in done["layers"]] == [launch["name"] for launch in planned["launches"]]
    assert planned["estimated_cycles"] == pytest.approx(done["cycles"], rel=0.05)
    reasons = {each["name"]: each["reason"] for each in planned["nodes"] if each["reason"] is not None}
    assert {each["node"]: each["reason"] for each in done["host_ops"]} == reasons
    return True


def turns() -> Iterator[Any]:
    """CI has all that is refused, and a twelfth of what runs: tests of each habit run the others by the library."""
    for at, name in enumerate(name for name in HABITS if not is_refused(name)):
        yield pytest.param(name, marks=[pytest.mark.all] if at % 12 else [])
    yield from filter(is_refused, HABITS)


def is_refused(name: str) -> bool:
    return name in REFUSED or "trains" in name or name in ("an empty input", "an empty output")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(turns()))
def test_all_doors_say_the_same(name: str, service: Service, tmp_path: Path) -> None:
    assert check(HABITS[name]().SerializeToString(), service, tmp_path) != is_refused(name)


@pytest.mark.slow
@pytest.mark.all  # what runs is among the habits
@pytest.mark.parametrize("form", QUANTISED)
def test_all_doors_say_the_same_of_a_quantised_model(form: QuantFormat, service: Service, tmp_path: Path) -> None:
    made = quantised_statically(every_layer().model(), tmp_path, (SIGNED, SIGNED), form)
    assert check(made.SerializeToString(), service, tmp_path)
