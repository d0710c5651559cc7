import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import httpx2
import numpy as np
import pytest

from tests.helpers.programs.hand_programs import Parts, addition, zipped

Check = Callable[..., dict]


def posted(client: httpx2.Client, **body: Any) -> dict:
    response = client.post("/v1/programs", **body)
    assert response.status_code == 201, response.text
    document = response.json()
    assert response.headers["location"] == f"/v1/programs/{document['id']}"
    return document


def files(parts: Parts, name: Callable[[str], str], filename: Callable[[str], str]) -> list[tuple]:
    return [(name(part), (filename(part), data)) for part, data in parts.items()]


def test_a_program_is_described(client: httpx2.Client) -> None:
    document = posted(client, content=zipped(addition()))
    assert document["accelerator"] == "vta"
    assert (document["instructions"], document["launches"], document["host_steps"]) == (6, 1, 0)
    assert document["dram_bytes"] == 16 << 20
    assert document["expects"] is True
    assert client.get(f"/v1/programs/{document['id']}").json() == document
    assert posted(client, content=zipped(addition(expected=[])))["expects"] is False


@pytest.mark.slow
def test_the_same_program_has_one_id_however_it_is_packed(client: httpx2.Client) -> None:
    parts = addition()
    reversed_parts = dict(reversed(parts.items()))
    same = [
        posted(client, content=zipped(parts)),
        posted(client, content=zipped(reversed_parts, zipfile.ZIP_STORED), headers={"content-type": "application/zip"}),
        posted(client, files={"file": ("program.zip", zipped(parts))}),
        posted(client, data={"note": "first"}, files={"file": ("program.zip", zipped(parts))}),
        posted(client, files=files(parts, lambda _: "file", lambda part: part)),
        posted(client, files=files(parts, lambda part: part, lambda _: "blob")),
        posted(client, files=files(reversed_parts, lambda part: part, lambda part: part)),
    ]
    program = client.get(f"/v1/programs/{same[0]['id']}/content").content
    same.append(posted(client, content=program))
    same.append(posted(client, files={"file": ("p", program)}))
    assert all(document == same[0] for document in same)


def test_the_program_file_comes_back(client: httpx2.Client, is_problem: Check) -> None:
    document = posted(client, content=zipped(addition()))
    href = f"/v1/programs/{document['id']}/content"
    whole = client.get(href)
    assert whole.headers["content-type"] == "application/zip"
    assert len(whole.content) == document["bytes"]
    assert hashlib.sha256(whole.content).hexdigest() == document["id"]
    with zipfile.ZipFile(io.BytesIO(whole.content)) as archive:
        assert archive.read("instructions.bin") == addition()["instructions.bin"]
    part = client.get(href, headers={"range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, whole.content[10:20])
    is_problem(client.get(href, headers={"range": "bytes=99999999-"}), 416, "range-not-satisfiable")
    assert client.head(href).headers["content-length"] == str(document["bytes"])


def bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in addition().items():
            archive.writestr(name, data)
        with archive.open("x2.bin", "w") as member:
            for _ in range(300):
                member.write(bytes(1 << 20))
    return file.getvalue()


def bare(document: object) -> bytes:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return zipped(addition() | {"program.json": text})


DRAM = [{"address": 0, "file": "x.bin"}]
BAD = {
    "not a zip": (b"PK nothing", "invalid-program"),
    "random bytes": (np.random.default_rng(0).bytes(10_000), "invalid-program"),
    "an empty zip": (zipped({}), "invalid-program"),
    "a cut zip": (zipped(addition())[:-30], "invalid-program"),
    "a zip without program.json": (zipped({"instructions.bin": bytes(16)}), "invalid-program"),
    "program.json is no JSON": (bare(b"{"), "invalid-program"),
    "program.json is a list": (bare([]), "invalid-program"),
    "program.json is nested": (bare(b"[" * 100_000), "invalid-program"),
    "program.json is no text": (bare(b"\xff\xfe"), "invalid-program"),
    "half an instruction": (zipped(addition() | {"instructions.bin": bytes(23)}), "invalid-program"),
    "a part that is missing": (zipped(addition(dram=[{"address": 0, "file": "z.bin"}])), "invalid-program"),
    "a part elsewhere": (zipped(addition(dram=[{"address": 0, "file": "../../etc/passwd"}])), "invalid-program"),
    "a negative address": (zipped(addition(dram=[{"address": -1, "file": "x.bin"}])), "invalid-program"),
    "an absurd address": (zipped(addition(dram=[{"address": 2**70, "file": "x.bin"}])), "invalid-program"),
    "an unknown token queue": (zipped(addition(initial_tokens={"load_to_store": 1})), "invalid-program"),
    "negative tokens": (zipped(addition(initial_tokens={"store_to_compute": -1})), "invalid-program"),
    "too little DRAM": (zipped(addition(dram_bytes=64)), "invalid-program"),
    "an unknown key": (zipped(addition(colour="red")), "invalid-program"),
    "no accelerator": (zipped(addition(accelerator=None)), "invalid-accelerator"),
    "an unknown accelerator": (zipped(addition(accelerator="tpu")), "invalid-accelerator"),
    "an impossible accelerator": (zipped(addition(accelerator={"LOG_INP_WIDTH": 3})), "invalid-accelerator"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_programs_are_refused(client: httpx2.Client, is_problem: Check, name: str) -> None:
    data, slug = BAD[name]
    response = client.post("/v1/programs", content=data)
    problem = is_problem(response, 422, slug)
    assert problem["field"]
    assert client.get("/healthz").json() == {"status": "ok"}


@pytest.mark.slow
def test_a_zip_bomb_is_refused(client: httpx2.Client, is_problem: Check) -> None:
    is_problem(client.post("/v1/programs", content=bomb()), 422, "program-too-large")


@pytest.mark.slow
def test_forms_that_are_no_program(client: httpx2.Client, is_problem: Check) -> None:
    parts = addition()
    del parts["program.json"]
    several = client.post("/v1/programs", files=files(parts, lambda _: "file", lambda part: part))
    assert "program.json" in is_problem(several, 422, "invalid-program", "program.json")["detail"]
    twice = [*files(addition(), lambda _: "file", lambda part: part), ("file", ("x.bin", b"again"))]
    is_problem(client.post("/v1/programs", files=twice), 422, "invalid-program", "x.bin")
    many = [(f"{number}", ("f", b"x")) for number in range(1025)]
    is_problem(client.post("/v1/programs", files=many), 413, "too-large", "body")
    is_problem(client.post("/v1/programs", json={"program": "x"}), 422, "invalid-request", "base64")
    is_problem(client.post("/v1/programs", content=b""), 422, "invalid-request", "body")


@pytest.mark.parametrize("digest", ["0" * 64, "x", "..%2f..%2fjobs", "%00"])
def test_unknown_programs(client: httpx2.Client, is_problem: Check, digest: str) -> None:
    is_problem(client.get(f"/v1/programs/{digest}"), 404, "not-found")
    is_problem(client.get(f"/v1/programs/{digest}/content"), 404, "not-found")


def test_inputs_that_do_not_fit_the_program(client: httpx2.Client, is_problem: Check) -> None:
    program = posted(client, content=zipped(addition()))["id"]
    file = io.BytesIO()
    np.savez(file, nothing=np.zeros(3, np.uint8))
    tensors = client.post("/v1/tensors", content=file.getvalue()).json()["id"]
    for digest, slug in ((tensors, "invalid-tensors"), ("0" * 64, "unknown-tensors")):
        job = {"program": program, "options": {"inputs": digest}}
        is_problem(client.post("/v1/jobs", json=job), 422, slug, "options.inputs")
    job = {"program": program, "accelerator": "tpu"}
    is_problem(client.post("/v1/jobs", json=job), 422, "unknown-accelerator", "accelerator")
    job = {"program": program, "options": {"calibration": tensors}}
    is_problem(client.post("/v1/jobs", json=job), 422, "invalid-request", "options.calibration")
