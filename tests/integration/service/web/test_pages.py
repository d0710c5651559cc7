"""Each page in each state, with texts that would do harm where they were not escaped."""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import onnx
import pytest
from onnx import TensorProto, helper

from accel.catalog.load_accelerator import canonical, load_accelerator
from accel.report.documents.report_documents import SimulationReport
from tests.helpers.html_pages import Page, read_page
from tests.helpers.idle_service import Quiet, quiet_service
from tests.helpers.records import RESULT, publish_all
from tests.helpers.reports import report
from worker.examples import example
from worker.records.job_record import Stage
from worker.records.problem_details import problem
from worker.storage.identifiers import utc_now

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;{{7*7}} javascript:alert(3)"
CONVOLUTION = example("models").id
BROWSER = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    with quiet_service(tmp_path_factory.mktemp("pages")) as running:
        yield running


def show(quiet: Quiet, path: str, status: int = 200) -> Page:
    answer = quiet.client.get(path, headers=BROWSER)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert answer.headers["referrer-policy"] == "same-origin"
    assert not re.search(r"<(script>|img src=x)", answer.text)
    page = read_page(answer.text)
    assert page.faults == []
    return page


def post(quiet: Quiet, path: str, **data: str) -> httpx2.Response:
    answer = quiet.client.post(path, data=data, headers=BROWSER)
    assert answer.status_code == 303, answer.text
    return answer


def submitted(quiet: Quiet, **options: object) -> str:
    job_id: str = quiet.post(quiet.request(**options) | {"fresh": True, "label": HOSTILE})["id"]
    return job_id


def succeed(quiet: Quiet, job_id: str, directory: Path, document: object) -> None:
    (directory / "tir" / "inject").mkdir(parents=True)
    (directory / "report.json").write_text(json.dumps(document))
    (directory / "tir" / "01-import.txt").write_text("x")
    (directory / "tir" / "inject" / "02-a & b.txt").write_text("x")
    publish_all(quiet.store, job_id, 1, directory)
    quiet.jobs.succeed(job_id, 1, RESULT)


def test_a_job_that_waits_and_runs(quiet: Quiet) -> None:
    first, second = submitted(quiet, seed=1), submitted(quiet, seed=2)
    page = show(quiet, f"/jobs/{second}")
    assert HOSTILE in page.text
    assert "1 job waits before it" in page.text
    assert "/jobs/" + second + "/cancel" in page.posts
    shown = quiet.client.get(f"/jobs/{second}", headers=BROWSER).text
    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in shown
    assert "Next in the queue." in show(quiet, f"/jobs/{first}").text
    quiet.jobs.progress(first, 1, utc_now(), Stage(name="simulate", step=11, total=13))
    assert "Stage 11 of 13: simulate" in show(quiet, f"/jobs/{first}").text
    assert "simulate, 11 of 13" in show(quiet, "/jobs").text
    for job_id in (first, second):
        answer = post(quiet, f"/jobs/{job_id}/cancel")
        assert answer.headers["location"] == f"/jobs/{job_id}"
        page = show(quiet, f"/jobs/{job_id}")
        assert "It was canceled" in page.text
        assert "live.js" not in quiet.client.get(f"/jobs/{job_id}", headers=BROWSER).text
    refused = quiet.client.post(f"/jobs/{first}/delete", headers=BROWSER)
    assert refused.status_code == 303
    show(quiet, f"/jobs/{first}", 404)


def test_a_job_that_failed_says_why(quiet: Quiet) -> None:
    job_id = submitted(quiet, seed=3)
    fault = problem("invalid-model", HOSTILE, HOSTILE, field=f"node:{HOSTILE}")
    more = {"incident": "0" * 32, "diagnosis": "field-range", "instruction": 7}
    quiet.jobs.fail(job_id, fault.model_copy(update=more), 1)
    page = show(quiet, f"/jobs/{job_id}")
    for text in (HOSTILE, f"node:{HOSTILE}", "field-range", "0" * 32, "7, counted from the program's first"):
        assert text in page.text
    assert "/problems/invalid-model" in page.links


@pytest.mark.slow
def test_a_report_of_hostile_names(quiet: Quiet, tmp_path: Path) -> None:
    job_id = submitted(quiet, seed=4)
    document = report(HOSTILE).model_dump(mode="json")
    succeed(quiet, job_id, tmp_path, document)
    page = show(quiet, f"/jobs/{job_id}")
    assert page.text.count(HOSTILE) > 20
    for text in ("verified", "2,000", "20.0 µs", "100 MHz", "25.0 %", "of 256 MACs a cycle", "1.25"):
        assert text in page.text, text
    for part in ("result", "findings", "cycles", "layers", "roofline", "accuracy", "host", "stages", "files", "record"):
        assert part in page.ids, part
    assert {"layer-1", "layer-2"} <= page.ids.keys()
    assert {"#layer-1", "#layer-2"} <= page.links
    assert page.tags["circle"] == 2
    assert page.tags["rect"] >= 6  # of the unit's bar
    for link in page.links:
        if link.startswith("/v1/") and "trace" not in link:
            assert quiet.client.get(link).status_code == 200, link


def test_a_report_of_another_accelerator_has_no_roof_of_this_one(quiet: Quiet, tmp_path: Path) -> None:
    """The preset may have changed since; what would be drawn by today's would be wrong."""
    job_id = submitted(quiet, seed=5)
    document = report("x").model_dump(mode="json")
    document["provenance"]["accelerator"]["id"] = "f" * 64
    succeed(quiet, job_id, tmp_path, document)
    page = show(quiet, f"/jobs/{job_id}")
    assert "roofline" not in page.ids
    assert "100 MHz" not in page.text
    assert "layers" in page.ids


@pytest.mark.parametrize("document", [{}, [], {"units": {}}], ids=str)
def test_a_report_that_is_none(quiet: Quiet, tmp_path: Path, document: object) -> None:
    job_id = submitted(quiet, seed=6)
    succeed(quiet, job_id, tmp_path, document)
    assert "no report that this page can show" in show(quiet, f"/jobs/{job_id}").text


def test_the_report_of_a_program(quiet: Quiet, tmp_path: Path) -> None:
    of_model = report(HOSTILE)
    same = ("accelerator", "provenance", "warnings", "program", "timing_model")
    one = {"index": 1, "launch": HOSTILE, "op": HOSTILE}
    race = {"first": one, "second": one, "memory": HOSTILE, "begin": 0, "end": 1, "detail": f"race {HOSTILE}"}
    document = SimulationReport(
        **{name: getattr(of_model, name) for name in same},
        engine="both", verified=False, cycles=None, seconds=None, mismatch_count=12,
        mismatches=[{"tensor": HOSTILE, "address": 4096, "got": 1, "expected": 2, "instruction": None}],
        race_count=30, races=[race], stale_read_count=None, stale_reads=[], units=None, bytes_read=1, bytes_written=2,
        tokens={HOSTILE: 3}, launches=of_model.layers,
    )  # fmt: skip
    job_id = submitted(quiet, seed=7)
    succeed(quiet, job_id, tmp_path, document.model_dump(mode="json"))
    page = show(quiet, f"/jobs/{job_id}")
    for text in (
        "30 races",
        f"race {HOSTILE}",
        "12 elements differ",
        "memory does not hold what was expected",
        "timing did not run",
        "The first 1 are",
    ):
        assert text in page.text, text
    assert "cycles" not in page.ids
    assert "wrong" in page.text


def test_lists_filter_label_pin_and_delete(quiet: Quiet, tmp_path: Path) -> None:
    job_id = submitted(quiet, seed=8)
    quiet.succeed(job_id, tmp_path)
    home = f"/jobs/{job_id}"
    filtered = f"/jobs?state=succeeded&model={quiet.model}&accelerator=vta"
    for path in ("/jobs", "/", filtered, "/jobs?state=&model=&accelerator="):
        assert home in show(quiet, path).links, path
    assert home not in show(quiet, "/jobs?state=failed").links
    assert "No job is like this" in show(quiet, "/jobs?accelerator=none").text
    show(quiet, "/jobs?state=odd", 422)
    assert post(quiet, f"{home}/label", label="better", back=filtered).headers["location"] == filtered
    assert quiet.client.get(f"/v1{home}").json()["label"] == "better"
    assert post(quiet, f"{home}/label", label="", back="https://evil.example").headers["location"] == home
    assert quiet.client.get(f"/v1{home}").json()["label"] is None
    assert quiet.client.post(f"{home}/label", data={"label": "a\nb"}, headers=BROWSER).status_code == 422
    post(quiet, f"{home}/pin")
    assert quiet.client.get(f"/v1{home}").json()["pinned"]
    assert "pinned" in show(quiet, "/jobs").text
    post(quiet, f"{home}/unpin")
    assert not quiet.client.get(f"/v1{home}").json()["pinned"]
    assert post(quiet, f"{home}/delete", back=filtered).headers["location"] == filtered
    show(quiet, home, 404)


@pytest.mark.slow
def test_pages_of_a_long_list(quiet: Quiet) -> None:
    made = [submitted(quiet, seed=100 + number) for number in range(32)]
    first = show(quiet, "/jobs")
    [following] = [link for link in first.links if "cursor=" in link]
    second = show(quiet, following)
    found = [job_id for page in (first, second) for job_id in made if f"/jobs/{job_id}" in page.links]
    assert sorted(found) == sorted(made)
    assert "/jobs" in second.links
    for job_id in made:
        post(quiet, f"/jobs/{job_id}/cancel")


def hostile_model() -> bytes:
    nodes = [helper.make_node("Relu", ["x"], ["y"], name=HOSTILE)]
    shape = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    model = helper.make_model(
        helper.make_graph(nodes, "g", shape[:1], shape[1:]), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model.SerializeToString()


def start(quiet: Quiet, do: str, files: dict[str, tuple[str, bytes]] | None = None, **fields: str) -> httpx2.Response:
    parts = [(name, (None, value)) for name, value in ({"do": do} | fields).items()]
    return quiet.client.post("/", files=[*parts, *(files or {}).items()], headers=BROWSER)


@pytest.mark.slow
def test_models_and_their_plans(quiet: Quiet) -> None:
    answer = start(quiet, "plan", {"file": ("<b>evil.onnx", hostile_model())}, accelerator="vta")
    assert answer.status_code == 303, answer.text
    plan = show(quiet, answer.headers["location"])
    assert plan.text.count(HOSTILE) >= 1
    assert "on the host" in plan.text
    assert "folded" not in plan.text
    models = show(quiet, "/models")
    assert "<b>evil" in models.text  # the file's name has become its label
    listed = quiet.client.get("/v1/models").json()["items"]
    [model] = [item["id"] for item in listed if item["label"] == "<b>evil"]
    assert "Inputs and outputs" in show(quiet, f"/models?id={model}").text
    show(quiet, f"/models?id={'0' * 64}", 404)
    post(quiet, f"/models/{model}/label", label=HOSTILE)
    assert HOSTILE in show(quiet, "/models").text
    assert HOSTILE in show(quiet, "/").text
    post(quiet, f"/models/{model}/delete")
    show(quiet, f"/models?id={model}", 404)


@pytest.mark.slow
def test_the_plan_of_a_form_keeps_nothing(quiet: Quiet) -> None:
    def planned(**fields: str) -> httpx2.Response:
        return quiet.client.post("/plan", files={name: (None, value) for name, value in fields.items()})

    known = [quiet.client.get(path).json() for path in ("/v1/models", "/v1/accelerators", "/v1/jobs")]
    document = canonical(load_accelerator("vta").model_copy(update={"title": HOSTILE})).decode()
    answer = planned(model=CONVOLUTION, accelerator="vta", document=document)
    assert answer.status_code == 200, answer.text
    assert not re.search(r"<(script>|img src=x)", answer.text)
    text = html.unescape(answer.text)
    assert f"One convolution on {HOSTILE}" in text
    assert "on the accelerator" in text
    for fields, slug in (
        ({"model": CONVOLUTION, "document": "name: x"}, "invalid-accelerator"),
        ({"model": CONVOLUTION, "accelerator": "none"}, "unknown-accelerator"),
        ({"model": "uploaded", "uploaded": "0" * 64}, "unknown-model"),
        ({"model": HOSTILE}, "invalid-request"),
        ({"model": CONVOLUTION, "seed": "-1"}, "invalid-request"),
    ):
        refused = planned(**fields)
        assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json"), slug
        assert refused.json()["type"] == f"/problems/{slug}"
    assert [quiet.client.get(path).json() for path in ("/v1/models", "/v1/accelerators", "/v1/jobs")] == known


@pytest.mark.slow
def test_accelerators(quiet: Quiet) -> None:
    document = load_accelerator("vta").model_copy(update={"title": HOSTILE})
    answer = start(quiet, "run", {"document_file": ("mine.json", canonical(document))}, model=CONVOLUTION)
    assert answer.status_code == 303, answer.text
    job = quiet.client.get("/v1" + answer.headers["location"]).json()
    digest = job["accelerator"]
    assert (
        HOSTILE in show(quiet, answer.headers["location"]).text
        or digest[:12] in show(quiet, answer.headers["location"]).text
    )
    for path in (f"/accelerators/{digest}", f"/accelerators/{digest}?format=json", "/accelerators", "/", "/jobs"):
        assert HOSTILE in show(quiet, path).text, path
    page = show(quiet, f"/accelerators/{digest}")
    for text in ("256 MACs", "gemm", "pragma_gemm", "dst[b, o] += i32(data[b, i]) * i32(weights[o, i])", "32.0 KiB"):
        assert text in page.text, text
    post(quiet, f"/accelerators/{digest}/label", label="mine <b>")
    assert "mine <b>" in show(quiet, "/accelerators").text
    in_use = quiet.client.post(f"/accelerators/{digest}/delete", headers=BROWSER)
    assert in_use.status_code == 409
    assert read_page(in_use.text).faults == []
    post(quiet, answer.headers["location"] + "/cancel")
    post(quiet, answer.headers["location"] + "/delete")
    post(quiet, f"/accelerators/{digest}/delete")
    show(quiet, f"/accelerators/{digest}", 404)
    for name in ("vector", "gemmini", "output-stationary"):
        show(quiet, f"/accelerators/{name}")


@pytest.mark.slow
def test_an_accelerator_is_added_or_comes_back(quiet: Quiet) -> None:
    def add(**parts: tuple[str | None, bytes]) -> httpx2.Response:
        return quiet.client.post("/accelerators", files=parts, headers=BROWSER)

    document = canonical(load_accelerator("vta").model_copy(update={"title": "typed"}))
    for parts in ({"document": (None, document)}, {"document_file": ("a.json", document), "document": (None, b"")}):
        answer = add(**parts)
        assert answer.status_code == 303, answer.text
        assert "typed" in show(quiet, answer.headers["location"]).text
    post(quiet, answer.headers["location"] + "/delete")
    for parts, said in (
        ({"document": (None, b" \n"), "document_file": ("", b"")}, "choose a file"),
        ({"document": (None, f"  x: [{HOSTILE}".encode())}, "/problems/invalid-accelerator"),
        ({"document": (None, b"x" * (1 << 20))}, "/problems/too-large"),
        ({"document": (None, b"\xff\xff")}, "UTF-8"),
        ({"document": (None, b"name: x")}, "accelerator"),
    ):
        answer = add(**parts)
        assert answer.status_code in {413, 422}, said
        page = read_page(answer.text)
        assert page.faults == []
        assert said in page.text, said
        if said == "/problems/invalid-accelerator":
            assert f"  x: [{HOSTILE}" in page.text


@pytest.mark.parametrize(
    ("fields", "files", "said"),
    [
        ({"seed": "-1"}, {}, "options.seed"),
        ({"seed": "x"}, {}, "options.seed"),
        ({"schedule": "slow"}, {}, "options.schedule"),
        ({"job_label": "x" * 201}, {}, "label"),
        ({"accelerator": HOSTILE[:90]}, {}, "there is no accelerator"),
        ({"model": "example:none"}, {}, "model"),
        ({"model": "uploaded", "uploaded": "0" * 64}, {}, "there is no model"),
        ({"model": "uploaded", "uploaded": "no id"}, {}, "model"),
        ({"document": HOSTILE}, {}, "accelerator"),
        ({"document": "name: x"}, {}, "accelerator"),
        ({}, {"file": ("x.onnx", b"none")}, "invalid-model"),
    ],
    ids=str,
)
def test_what_cannot_be_started_comes_back_with_the_reason(
    quiet: Quiet, fields: dict[str, str], files: dict[str, tuple[str, bytes]], said: str
) -> None:
    given = {"model": CONVOLUTION, "accelerator": "vta"} | fields
    answer = start(quiet, "run", files, **given)
    assert answer.status_code == 422, answer.headers
    page = read_page(answer.text)
    assert page.faults == []
    assert said in page.text
    if "document" in fields:
        assert fields["document"] in page.text  # what was typed is still there


def test_an_earlier_job_answers_and_says_so(quiet: Quiet, tmp_path: Path) -> None:
    given = {"model": "uploaded", "uploaded": quiet.model, "accelerator": "vta", "seed": "77", "job_label": "mine"}
    first = start(quiet, "run", **given).headers["location"]
    job_id = first.removeprefix("/jobs/")
    assert quiet.client.get(f"/v1{first}").json()["label"] == "mine"
    quiet.succeed(job_id, tmp_path)
    again = start(quiet, "run", **given).headers["location"]
    assert again == f"{first}?answered=earlier"
    assert "An earlier job was asked the same" in show(quiet, again).text
    assert start(quiet, "run", **given, fresh="on").headers["location"] not in {first, again}


def test_pages_are_kept_by_their_content(quiet: Quiet) -> None:
    answer = quiet.client.get("/accelerators", headers=BROWSER)
    assert answer.headers["cache-control"] == "private, no-cache"
    same = quiet.client.get("/accelerators", headers=BROWSER | {"If-None-Match": answer.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    # a browser takes the headers of a 304 in the place of those that it keeps: none may forbid what the page's allow
    assert {"content-security-policy", "referrer-policy"} & set(same.headers) == set()
    assert quiet.client.head("/accelerators", headers=BROWSER).headers["etag"] == answer.headers["etag"]


def test_problems_are_pages_for_browsers_alone(quiet: Quiet) -> None:
    for path in ("/nothing", "/jobs/none", f"/jobs/{'0' * 32}", "/accelerators/none", "/jobs/latest/none"):
        page = show(quiet, path, 404)
        assert "There is no such page" in page.text
        assert "/problems/not-found" in page.links
        assert quiet.client.get(path).headers["content-type"] == "application/problem+json"
    assert quiet.client.get("/v1/nothing", headers=BROWSER).headers["content-type"] == "application/problem+json"
    answer = quiet.client.put("/jobs", headers=BROWSER)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert read_page(answer.text).faults == []
    evil = quiet.client.get("/", headers=BROWSER | {"Host": "evil.example"})
    assert evil.status_code == 403
    assert read_page(evil.text).faults == []


def test_a_defect_of_ours_is_a_page_too(quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(HOSTILE)

    job_id = submitted(quiet, seed=9)
    monkeypatch.setattr("service.web.pages.job_pages._values", fail)
    address = f"{str(quiet.client.base_url).rstrip('/')}/jobs/{job_id}"  # the server ends such a connection
    answer = httpx2.get(address, headers=BROWSER)
    assert answer.status_code == 500
    page = read_page(answer.text)
    assert page.faults == []
    assert "the error has been logged under this incident" in page.text
    assert HOSTILE not in page.text
    assert httpx2.get(address).headers["content-type"] == "application/problem+json"
    quiet.jobs.cancel(job_id)


def test_a_problem_links_to_its_type_alone(quiet: Quiet) -> None:
    """The process of a job may say what it likes once it was taken over."""
    job_id = submitted(quiet, seed=10)
    quiet.jobs.fail(job_id, problem("x", "x", "x").model_copy(update={"type": "javascript:alert(1)"}), 1)
    page = show(quiet, f"/jobs/{job_id}")
    assert "javascript:alert(1)" in page.text


def test_without_keys_there_is_no_log_in(quiet: Quiet) -> None:
    for method in ("GET", "POST"):
        answer = quiet.client.request(method, "/login", params={"next": "/jobs"}, headers=BROWSER)
        assert answer.status_code == 303
        assert answer.headers["location"] == ("/jobs" if method == "GET" else "/")
    assert "/logout" not in show(quiet, "/").posts
