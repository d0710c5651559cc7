"""The presets and uploaded accelerators over HTTP."""

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from accel.accelerator.document import Accelerator
from accel.accelerator.text.document_text import MAX_BYTES
from accel.accelerator.text.document_yaml import accelerator_yaml, yaml_text
from accel.catalog.derive_accelerator import derive_accelerator
from accel.catalog.load_accelerator import accelerator_id, load_accelerator, parse_accelerator, preset_names
from examples.single import Conv, conv_model
from tests.conftest import Service
from tests.helpers.marking import others_all

TEN_KEYS = {
    "TARGET": "sim",
    "HW_VER": "0.0.2",
    "LOG_INP_WIDTH": 3,
    "LOG_WGT_WIDTH": 3,
    "LOG_ACC_WIDTH": 5,
    "LOG_BATCH": 0,
    "LOG_BLOCK": 3,
    "LOG_UOP_BUFF_SIZE": 13,
    "LOG_INP_BUFF_SIZE": 13,
    "LOG_WGT_BUFF_SIZE": 14,
    "LOG_ACC_BUFF_SIZE": 15,
}


def test_the_presets_are_listed_and_described(client: httpx2.Client) -> None:
    page = client.get("/v1/accelerators").json()
    assert [item["id"] for item in page["items"]][: len(preset_names())] == preset_names()
    assert [item["family"] for item in page["items"]][: len(preset_names())] == [
        load_accelerator(name).family for name in preset_names()
    ]
    assert page["next_cursor"] is None
    document = Accelerator.model_validate(client.get("/v1/accelerators/vta").json())
    assert document == load_accelerator("vta")


def test_a_dry_run_checks_and_keeps_nothing(client: httpx2.Client, is_problem: Callable[..., dict]) -> None:
    known = client.get("/v1/accelerators").json()
    text = accelerator_yaml(load_accelerator("vta")).replace("title: VTA 16x16", "title: tried")
    answer = client.post("/v1/accelerators?dry_run=true", content=text, headers={"Content-Type": "application/yaml"})
    assert answer.status_code == 200, answer.text
    assert "location" not in answer.headers
    checked = answer.json()
    assert (checked["title"], checked["id"]) == ("tried", accelerator_id(parse_accelerator(text.encode())))
    assert client.get("/v1/accelerators").json() == known
    assert client.get(f"/v1/accelerators/{checked['id']}").status_code == 404
    wrong = text.replace("depth: 1024", "depth: 0").replace("dtype: uint32", "dtype: uint31", 1)
    answer = client.post("/v1/accelerators?dry_run=true", content=wrong, headers={"Content-Type": "application/yaml"})
    found = is_problem(answer, 422, "invalid-accelerator", "accelerator.memories.0.dtype")
    lines = wrong.splitlines()
    assert [(one["field"], lines[one["line"] - 1].strip()) for one in found["errors"]] == [
        ("accelerator.memories.0.dtype", "dtype: uint31"),
        ("accelerator.memories.1.depth", "depth: 0"),
    ]


def test_a_preset_that_is_written_in_yaml_comes_with_its_comments(client: httpx2.Client) -> None:
    answer = client.get("/v1/accelerators/mvin-mvout?format=yaml")
    assert "# A small accelerator with three sorts of instructions" in answer.text
    assert parse_accelerator(answer.content) == load_accelerator("mvin-mvout")


@pytest.mark.parametrize("form", ["ten keys", "variant", "document"])
def test_each_form_is_uploaded(client: httpx2.Client, form: str) -> None:
    document = {
        "ten keys": TEN_KEYS,
        "variant": {"vta_config": TEN_KEYS, "variant": {"bus_bytes": 16}, "name": "wide"},
        "document": load_accelerator("vta-32").model_dump(mode="json"),
    }[form]
    answer = client.post("/v1/accelerators", json=document)
    assert answer.status_code == 201
    wanted = parse_accelerator(document)
    assert answer.json() == {"id": accelerator_id(wanted), "title": wanted.title, "family": "vta", "label": None}
    assert answer.headers["location"] == f"/v1/accelerators/{accelerator_id(wanted)}"
    got = client.get(answer.headers["location"])
    assert got.status_code == 200
    assert Accelerator.model_validate(got.json()) == wanted
    again = client.post("/v1/accelerators", json=got.json())
    assert (again.status_code, again.json()) == (201, answer.json())


def test_pages_hold_the_presets_then_what_was_uploaded(client: httpx2.Client) -> None:
    uploaded = [
        client.post("/v1/accelerators", json=TEN_KEYS | {"LOG_UOP_BUFF_SIZE": size}).json()["id"] for size in (10, 11)
    ]
    ids, cursor = [], {}
    while True:
        page = client.get("/v1/accelerators", params={"limit": 1, **cursor}).json()
        ids += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert ids == [item["id"] for item in client.get("/v1/accelerators").json()["items"]]
    assert ids[: len(preset_names())] == preset_names()
    assert ids[len(preset_names()) :] == sorted(ids[len(preset_names()) :])
    assert set(uploaded) <= set(ids)


@pytest.mark.all  # its simulator is compiled by the job; test_provenance.py runs on one that has been
def test_a_job_runs_on_an_uploaded_accelerator(service: Service) -> None:
    client = service.client
    accelerator = client.post("/v1/accelerators", json=TEN_KEYS).json()["id"]
    model = client.post("/v1/models", content=conv_model(Conv(8, 8, 6, 6)).SerializeToString()).json()["id"]
    posted = client.post("/v1/jobs", json={"model": model, "accelerator": accelerator, "fresh": True})
    assert posted.status_code == 202, posted.text
    job = service.wait(posted.headers["Location"])
    assert job["state"] == "succeeded", job
    report = client.get(f"{posted.headers['Location']}/report").json()
    assert (report["verified"], report["accelerator"]) == (True, "1x8_i8w8a32_13_13_14_15")
    assert report["timing_model"]["calibrated"] is False
    assert "element of wgt 8 x 8, calibrated 16 x 16" in report["timing_model"]["outside"]


MEDIA_TYPES = ("application/yaml", "text/yaml", "application/x-yaml", "Application/YAML; charset=utf-8")


@pytest.mark.parametrize("name", others_all(preset_names(), ["vta", "gemmini", "vector"]))
def test_every_preset_is_uploaded_as_yaml_and_read_again(client: httpx2.Client, name: str) -> None:
    wanted = load_accelerator(name)
    for media_type in MEDIA_TYPES if name == "vta" else MEDIA_TYPES[:1]:
        answer = client.post("/v1/accelerators", content=accelerator_yaml(wanted), headers={"content-type": media_type})
        assert answer.status_code == 201, answer.text
        known = {"id": accelerator_id(wanted), "title": wanted.title, "family": wanted.family}
        assert answer.json() == known | {"label": None}
    got = client.get(answer.headers["location"], headers={"accept": "application/yaml"})
    assert got.headers["content-type"] == "application/yaml"
    assert got.headers["vary"] == "Accept, Accept-Encoding"
    assert parse_accelerator(got.content) == wanted


def test_the_ten_keys_as_yaml(client: httpx2.Client) -> None:
    answers = [
        client.post("/v1/accelerators", content=body, headers={"content-type": media_type}).json()
        for media_type, body in (("application/yaml", yaml_text(TEN_KEYS)), ("application/json", json.dumps(TEN_KEYS)))
    ]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("document", [accelerator_yaml(load_accelerator("vta-8")), json.dumps(TEN_KEYS)])
def test_a_form_with_the_file(client: httpx2.Client, document: str) -> None:
    answer = client.post("/v1/accelerators", files={"file": ("mine.yaml", document.encode())})
    assert answer.status_code == 201, answer.text
    assert answer.json()["id"] == accelerator_id(parse_accelerator(document.encode()))


@pytest.mark.parametrize(
    ("accept", "query", "media_type"),
    [
        (None, "", "application/json"),
        ("*/*", "", "application/json"),
        ("application/yaml;q=0.5, application/json", "", "application/json"),
        ("application/yaml, application/json;q=0.5", "", "application/yaml"),
        ("application/json", "?format=yaml", "application/yaml"),
    ],
)
def test_which_form_is_answered(client: httpx2.Client, accept: str | None, query: str, media_type: str) -> None:
    answer = client.get(f"/v1/accelerators/vta{query}", headers={"accept": accept} if accept else {})
    assert answer.headers["content-type"] == media_type
    assert parse_accelerator(answer.content) == load_accelerator("vta")


def test_forms_that_there_are_not(client: httpx2.Client, is_problem: Callable[..., dict]) -> None:
    answer = client.get("/v1/accelerators/vta", headers={"accept": "image/png"})
    assert "application/yaml" in is_problem(answer, 406, "not-acceptable", "Accept")["detail"]
    is_problem(client.get("/v1/accelerators/vta?format=xml"), 422, "invalid-request", "format")


BAD = {
    "not JSON": (b"{", "accelerator"),
    "a list": (b"[]", "accelerator"),
    "a surrogate": (b'{"TARGET": "\\ud800"}', "accelerator"),
    "a key twice": (b'{"TARGET": "a", "TARGET": "b"}', "accelerator.TARGET"),
    "nested": (b"[" * 10_000, "accelerator"),
    "no number": (b'{"LOG_BLOCK": NaN}', "accelerator"),
    "unknown key": (json.dumps(TEN_KEYS | {"LOG_BLOK": 4}).encode(), "LOG_BLOK"),
    "missing key": (json.dumps({k: v for k, v in TEN_KEYS.items() if k != "LOG_BATCH"}).encode(), "LOG_BATCH"),
    "text": (json.dumps(TEN_KEYS | {"LOG_BLOCK": "4"}).encode(), "LOG_BLOCK"),
    "huge": (json.dumps(TEN_KEYS | {"LOG_ACC_BUFF_SIZE": 30}).encode(), "LOG_ACC_BUFF_SIZE"),
    "half a document": (b'{"family": "vta"}', "accelerator.name"),
}


BAD_YAML = {
    "no YAML": (b"name: [", "accelerator"),
    "an alias": (b"a: &x 1\nb: *x\n", "accelerator"),
    "a merge key": (b"a: &x {b: 1}\nc:\n  <<: *x\n", "accelerator"),
    "a tag": (b"a: !!python/object/apply:os.system [ls]\n", "accelerator"),
    "two documents": (b"a: 1\n---\nb: 2\n", "accelerator"),
    "a key twice": (b"TARGET: a\nTARGET: b\n", "accelerator.TARGET"),
    "a key that is no text": (b"1: a\n", "accelerator"),
    "nested": (b"- " * 100_000, "accelerator"),
    "not UTF-8": (b"name: \xff\n", "accelerator"),
    "a list": (b"- a\n", "accelerator"),
    "a text": (b"vta\n", "accelerator"),
    "a bomb": (b"a: &a [1,1]\nb: &b [*a,*a]\nc: [*b,*b]\n", "accelerator"),
    "unknown key": (yaml_text(TEN_KEYS | {"LOG_BLOK": 4}).encode(), "LOG_BLOK"),
    "half a document": (b"family: vta\n", "accelerator.name"),
}


def slug_of(name: str) -> str:
    return "accelerator-too-large" if name == "nested" else "invalid-accelerator"


@pytest.mark.parametrize("name", BAD_YAML)
def test_bad_yaml_is_refused(client: httpx2.Client, is_problem: Callable[..., dict], name: str) -> None:
    body, field = BAD_YAML[name]
    for media_type in ("application/yaml", "application/octet-stream"):
        answer = client.post("/v1/accelerators", content=body, headers={"content-type": media_type})
        is_problem(answer, 422, slug_of(name), field)
    is_problem(client.post("/v1/accelerators", files={"file": ("a", body)}), 422, slug_of(name), field)


def filled(size: int) -> dict[str, bytes]:
    """Documents of so many bytes that take long to read, or come to much."""
    units = {
        "numbers": (b"a: [", b"1,", b"1]"),
        "items": (b"", b"- 1\n", b""),
        "brackets": (b"a: ", b"[", b""),
        "aliases": (b"a: &a [1]\nb: [", b"*a,", b"1]"),
        "anchors": (b"", b"- &a 1\n", b""),
        "a long key": (b"? ", b"k", b"\n: 1"),
        "a long text": (b"a: ", b"x", b""),
        "numbers in JSON": (b'{"a": [', b"1,", b"1]}"),
        "brackets in JSON": (b'{"a": ', b"[", b""),
        "parts in JSON": (b'{"memories": [', b'{"name": 1},', b"1]}"),
        "pairs in JSON": (b"{", b'"a":1,', b'"a":1}'),
    }
    return {
        name: head + unit * ((size - len(head + tail)) // len(unit)) + tail
        for name, (head, unit, tail) in units.items()
    }


@pytest.mark.slow
def test_documents_that_take_long_cost_the_api_little(service: Service, is_problem: Callable[..., dict]) -> None:
    bodies = [body for size in (MAX_BYTES, 1 << 20) for body in filled(size).values()]

    def post(body: bytes) -> httpx2.Response:
        return httpx2.post(
            f"{service.url}/v1/accelerators", content=body, headers={"content-type": "application/yaml"}, timeout=60
        )

    post(b"{}")  # the process that looks at them is there
    before = processor_seconds(service.process.pid)
    with ThreadPoolExecutor(6) as pool:
        answers = pool.map(post, bodies)
        assert service.client.get("/v1/accelerators/vta").status_code == 200
        for body, answer in zip(bodies, answers, strict=True):
            problem = is_problem(answer, 413 if len(body) > MAX_BYTES else 422, answer.json()["type"].split("/")[-1])
            assert problem["type"].split("/")[-1] in {"too-large", "accelerator-too-large", "invalid-accelerator"}
    spent = processor_seconds(service.process.pid) - before
    assert spent < 0.1 * len(bodies)


def processor_seconds(pid: int) -> float:
    """Of the process itself, not of its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def changed(path: str, value: Any) -> bytes:
    """The document of ``vta`` with another value at a place."""
    document = load_accelerator("vta").model_dump(mode="json")
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    node: Any = document
    for step in steps:
        node = node[step]
    node[last] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("family", "tpu", ["tpu", "vta"]),
        ("memories.0.dtype", "int7", ["found: 'int7'", "int32"]),
        ("memories.1.depth", 0, ["found: 0", "at least 1"]),
        ("instructions.0.direction", "sideways", ["found: 'sideways'", "load or store"]),
        ("instructions.0.unit", "lod", ["lod", "load, compute, store"]),
        ("instructions.0.fields.1.bits", "one", ["found: 'one'", "integer", "at most 64"]),
        ("synchronisation.limit", -1, ["found: -1", "tokens"]),
        ("parameters.queue_depths", 7, ["found: 7"]),
        ("clock_mhz", "fast", ["found: 'fast'", "MHz"]),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    client: httpx2.Client, is_problem: Callable[..., dict], path: str, value: Any, words: list[str]
) -> None:
    answer = client.post("/v1/accelerators", content=changed(path, value))
    problem = is_problem(answer, 422, "invalid-accelerator", f"accelerator.{path}")
    assert all(word in problem["detail"] for word in words), problem["detail"]


@pytest.mark.parametrize("name", BAD)
def test_bad_accelerators_are_refused(client: httpx2.Client, is_problem: Callable[..., dict], name: str) -> None:
    body, field = BAD[name]
    answer = client.post("/v1/accelerators", content=body, headers={"content-type": "application/json"})
    is_problem(answer, 422, slug_of(name), field)


def test_bodies_that_are_none(client: httpx2.Client, is_problem: Callable[..., dict]) -> None:
    is_problem(client.post("/v1/accelerators", content=b""), 422, "invalid-request", "body")
    is_problem(client.post("/v1/accelerators", data={"file": "{}"}), 415, "unsupported-media-type", "body")
    is_problem(client.post("/v1/accelerators", files={"file": ("a.json", b"")}), 422, "invalid-request", "body")
    is_problem(client.post("/v1/accelerators", files={"file": (None, b"{}")}), 422, "invalid-request", "body")
    for media_type in ("text/plain", "image/png", "application/xml", "application/x-sh"):
        answer = client.post("/v1/accelerators", content=b"{}", headers={"content-type": media_type})
        assert "application/yaml" in is_problem(answer, 415, "unsupported-media-type", "body")["detail"]
    is_problem(client.post("/v1/accelerators", content=b" " * (2 << 20)), 413, "too-large", "body")
    is_problem(client.post("/v1/accelerators", files={"file": ("a", b" " * (2 << 20))}), 413, "too-large", "body")


@pytest.mark.parametrize("name", ["tpu", "..%2fvta", "vta.json", "0" * 64, "A" * 64])
def test_unknown_accelerators(client: httpx2.Client, is_problem: Callable[..., dict], name: str) -> None:
    is_problem(client.get(f"/v1/accelerators/{name}"), 404, "not-found")
    answer = client.post("/v1/jobs", json={"model": "0" * 64, "accelerator": name})
    assert answer.status_code == 422


def test_an_accelerator_is_derived(client: httpx2.Client, is_problem: Callable[..., dict]) -> None:
    """What is kept is the document that the command line derives, and a job can name it."""
    address, body = "/v1/accelerators/gemmini/derive", {"set": {"dim": 8}, "name": "narrow"}
    tried = client.post(f"{address}?dry_run=true", json=body)
    assert tried.status_code == 200, tried.text
    assert client.get(f"/v1/accelerators/{tried.json()['id']}").status_code == 404
    answer = client.post(address, json=body)
    assert answer.status_code == 201, answer.text
    assert answer.json() == tried.json() | {"label": None}
    document = Accelerator.model_validate(client.get(answer.headers["location"]).json())
    assert document == derive_accelerator(load_accelerator("gemmini"), {"dim": 8}, "narrow")
    again = client.post(f"{answer.headers['location']}/derive", json={"set": {"dim": 16}})
    assert again.status_code == 201
    is_problem(client.post(address, json={"set": {"dimm": 8}}), 422, "invalid-accelerator", "set.dimm")
    is_problem(client.post(address, json={"set": {}}), 422, "invalid-request", "set")
    is_problem(client.post("/v1/accelerators/nobody/derive", json=body), 404, "not-found", "id")
    stationary = "/v1/accelerators/output-stationary/derive"
    is_problem(client.post(stationary, json=body), 422, "invalid-accelerator", "accelerator")
