"""Where numbers come from: reports of the service and of the command line name the same files by the same digests."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

import accel.accelerator
from accel.accelerator.document import Accelerator
from accel.accelerator.text.document_yaml import accelerator_yaml
from accel.catalog.load_accelerator import accelerator_id, load_accelerator
from examples.single import Conv, conv_model
from tests.helpers.commands import cyclops_here

MODEL = conv_model(Conv(16, 16, 8, 8)).SerializeToString()
FILES = ("model", "program", "inputs", "calibration", "versions")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


INPUTS, SAMPLES = npz(x=np.ones((1, 16, 8, 8), np.int8)), npz(x=np.zeros((3, 16, 8, 8), np.int8))


def variant() -> Accelerator:
    return load_accelerator("vta").model_copy(update={"clock_mhz": 123.0})


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The files of a run, as a user has them; the document has a comment that no machine keeps."""
    document = b"# of my own\n" + accelerator_yaml(variant()).encode()
    contents = {"m.onnx": MODEL, "mine.yaml": document, "x.npz": INPUTS, "c.npz": SAMPLES}
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def uploaded(service: Any, kind: str, path: Path) -> str:
    headers = {"Content-Type": "application/yaml"} if path.suffix == ".yaml" else {}
    answer = service.client.post(f"/v1/{kind}", content=path.read_bytes(), headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def of_service(service: Any, request: dict[str, Any]) -> dict[str, Any]:
    posted: httpx2.Response = service.client.post("/v1/jobs", json={"fresh": True} | request)
    assert posted.status_code == 202, posted.text
    job = service.wait(posted.headers["location"])
    assert job["state"] == "succeeded", job
    return service.client.get(job["links"]["report"]).json()["provenance"]


def of_command(*arguments: object) -> dict[str, Any]:
    done = cyclops_here(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["provenance"]


@pytest.mark.slow
def test_a_model_on_a_document_of_ones_own(service: Any, files: Path) -> None:
    accelerator = uploaded(service, "accelerators", files / "mine.yaml")
    request = {
        "model": uploaded(service, "models", files / "m.onnx"),
        "accelerator": accelerator,
        "options": {
            "seed": 7,
            "schedule": "quick",
            "inputs": uploaded(service, "tensors", files / "x.npz"),
            "calibration": uploaded(service, "tensors", files / "c.npz"),
        },
    }
    remote = of_service(service, request)
    options = ["--seed", 7, "--schedule", "quick", "--inputs", files / "x.npz", "--calibration", files / "c.npz"]
    local = of_command("run", files / "m.onnx", "--accelerator", files / "mine.yaml", *options)
    assert remote["model"] == sha256(MODEL)
    assert remote["inputs"] == sha256(INPUTS)
    assert remote["calibration"] == sha256(SAMPLES)
    document = {"name": "vta", "title": "VTA 16x16", "id": accelerator_id(variant())}
    assert remote["accelerator"] == document | {
        "label": None, "sha256": sha256((files / "mine.yaml").read_bytes()), "id": accelerator
    }  # fmt: skip
    assert local == remote | {"accelerator": remote["accelerator"] | {"label": str(files / "mine.yaml")}}
    assert (remote["options"]["seed"], remote["options"]["schedule"]) == (7, "quick")
    assert all(remote["versions"].values())

    planned = service.client.post("/v1/jobs?dry_run=true", json=request).json()["provenance"]
    assert planned["accelerator"] == remote["accelerator"]
    assert [planned[name] for name in ("model", "calibration", "versions")] == [
        remote[name] for name in ("model", "calibration", "versions")
    ]

    # the same document in other bytes: the report names these, and the answer from the record would not
    (files / "mine.yaml").write_bytes(accelerator_yaml(variant()).encode())
    assert uploaded(service, "accelerators", files / "mine.yaml") == accelerator
    again = of_service(service, request | {"fresh": False})
    assert again["accelerator"]["sha256"] == sha256((files / "mine.yaml").read_bytes())


@pytest.mark.slow
def test_a_program_on_its_own_and_on_a_preset(service: Any, files: Path) -> None:
    done = cyclops_here("run", files / "m.onnx", "--accelerator", "vta", "--out", files / "out")
    assert done.returncode == 0, done.stderr
    program = files / "out" / "program.zip"
    digest = uploaded(service, "programs", program)
    assert digest == sha256(program.read_bytes())
    remote, local = of_service(service, {"program": digest}), of_command("simulate", program)
    assert remote == local
    assert remote["program"] == digest
    assert (remote["model"], remote["inputs"], remote["accelerator"]["sha256"]) == (None, None, None)

    preset = Path(accel.accelerator.__file__).parent / "presets" / "vta.json"
    remote = of_service(service, {"program": digest, "accelerator": "vta"})
    local = of_command("simulate", program, "--accelerator", "vta")
    assert remote["accelerator"]["sha256"] == sha256(preset.read_bytes())
    assert local == remote | {"accelerator": remote["accelerator"] | {"label": "vta"}}


@pytest.mark.slow
def test_swept_documents_are_told_apart(files: Path) -> None:
    first = []
    for name in ("a.yaml", "b.yaml"):
        (files / name).write_bytes((files / "mine.yaml").read_bytes())
        done = cyclops_here("run", files / "m.onnx", "--accelerator", files / name)
        first.append(done.stdout.splitlines()[0])
    assert [line.split(":")[0] for line in first] == [f"vta ({files / name})" for name in ("a.yaml", "b.yaml")]
    plain = cyclops_here("run", files / "m.onnx", "--accelerator", "vta").stdout.splitlines()[0]
    assert plain.startswith("vta: ")
