import json
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from worker.telemetry.logs import JsonFormatter, begin, bind, bound, bound_fields, fields


def line(message: str, *args: object, **extra: object) -> dict:
    record = logging.makeLogRecord(
        {"name": "a.b", "levelno": 30, "levelname": "WARNING", "msg": message, "args": args, **extra}
    )
    text = JsonFormatter("api").format(record)
    assert len(text.splitlines()) == 1
    assert text.isascii()
    return json.loads(text)


def test_a_line() -> None:
    found = line("%s of %d", "one", 2, created=1e9 + 0.25, process=7)
    assert found == {
        "time": "2001-09-09T01:46:40.250+00:00",
        "level": "WARNING",
        "logger": "a.b",
        "message": "one of 2",
        "process": "api",
        "pid": 7,
    }


@pytest.mark.parametrize("text", ["a\nb", "\u2028", "\ud800", '"}', "\x00\x1b[31m", "\r"])
def test_whatever_is_said_stays_in_its_line(text: str) -> None:
    assert line("%s", text)["message"] == text


def test_what_is_bound_and_what_is_of_one_line() -> None:
    with bound(job="j", attempt=None):
        assert "attempt" not in line("x")
        with bound(attempt=2):
            found = line("x", **fields(process="job", path=Path("p")))
        assert (found["job"], found["attempt"], found["process"], found["path"]) == ("j", 2, "job", "p")
        assert "attempt" not in line("x")
    assert not bound_fields()


def test_a_thread_begins_with_nothing_bound() -> None:
    seen = []
    with bound(job="j"):
        bind(more="m")
        thread = threading.Thread(target=lambda: seen.append(dict(bound_fields())))
        thread.start()
        thread.join()
    assert seen == [{}]
    assert not bound_fields()


def test_an_exception_and_what_cannot_be_json() -> None:
    try:
        int("bad")
    except ValueError:
        found = line("failed", exc_info=sys.exc_info(), fields={"what": object})
    assert found["exception"].endswith("invalid literal for int() with base 10: 'bad'")
    assert found["what"] == str(object)


_PROGRAM = """
import logging, warnings
from worker.telemetry.logs import configure
configure("INFO", "{form}", "test")
logging.getLogger("rq.worker").info("from rq")
logging.getLogger("uvicorn.error").error("from uvicorn")
logging.getLogger("httpx2").info("a request")
logging.getLogger("x").debug("too little")
warnings.warn("careful")
"""


@pytest.mark.parametrize("form", ["json", "text"])
def test_everybodys_lines_have_the_same_form(form: str) -> None:
    program = _PROGRAM.format(form=form)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    if form == "json":
        lines = [json.loads(text) for text in done.stderr.splitlines()]
        assert [item["logger"] for item in lines] == ["rq.worker", "uvicorn.error", "py.warnings"]
        assert {item["process"] for item in lines} == {"test"}
    else:
        first, second, *_ = done.stderr.splitlines()
        assert first.endswith("INFO rq.worker: from rq")
        assert second.endswith("ERROR uvicorn.error: from uvicorn")


def test_another_piece_of_work_begins_with_nothing_of_the_last() -> None:
    with bound(job="j", trace_id="t"):
        begin(request_id="r")
        assert bound_fields() == {"request_id": "r"}
    assert not bound_fields()
