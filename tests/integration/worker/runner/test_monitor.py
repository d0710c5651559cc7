"""Processes that do not behave, in place of the one that does a job."""

import faulthandler
import itertools
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from accel.util.content_cache import CacheStore, FolderCache
from tests.helpers.marking import rest_all
from worker.config.settings import Settings
from worker.execution.job_inputs import ProgramJobInputs
from worker.process.children import start_child
from worker.records.job_record import Stage, Summary
from worker.records.job_request import JobOptions
from worker.records.problem_details import problem
from worker.runner.job_monitor import JobMonitor, JobOutcome
from worker.runner.job_process import OUT_OF_MEMORY_STATUS, OUTPUT_FOLDER, JobProcess
from worker.runner.job_protocol import CacheGet, CachePut, Failed, LogMessage, StageMessage, Succeeded, encode_frame
from worker.runner.job_reporting import JobLog

RESULT = Summary(verified=True, cycles=1, macs_share=None)
DONE = encode_frame(Succeeded(result=RESULT).model_dump())
WORK = ProgramJobInputs(Path("program.zip"), None, JobOptions())
KEY = "a" * 64


class Attended:
    """What came of a process that does ``acts`` with the line."""

    def __init__(
        self,
        tmp_path: Path,
        acts: Callable[[socket.socket], None],
        *,
        seconds: float = 20,
        stopped: Callable[[], bool] = lambda: False,
        cache: CacheStore | None = None,
        stage: Callable[[Stage | None], None] | None = None,
        **limits: int,
    ) -> None:
        self.stages: list[Stage] = []
        self.lines: list[str] = []
        self.cache = cache or FolderCache(tmp_path / "cache")
        (tmp_path / OUTPUT_FOLDER).mkdir()
        ours, theirs = socket.socketpair()
        written, writes = os.pipe()

        def child() -> None:
            os.setsid()
            os.dup2(writes, 2)
            os.close(writes)
            ours.close()
            acts(theirs)

        self.process = JobProcess(start_child(child), ours, written)
        theirs.close()
        os.close(writes)
        self.log = JobLog("job", 10_000, self.lines.append)
        watch = JobMonitor(
            self.process,
            tmp_path,
            Settings(**limits),
            cache=self.cache,
            kernels=None,
            stage=stage or (lambda stage: self.stages.append(stage) if stage else None),
            log=self.log,
            stopped=stopped,
        )
        self.outcome: JobOutcome = watch.run(WORK, time.monotonic() + seconds)
        assert self.process.poll() is not None
        self.process.close()

    @property
    def slug(self) -> str | None:
        return self.outcome.problem and self.outcome.problem.type.removeprefix("/problems/")


def test_all_that_is_said(tmp_path: Path) -> None:
    def acts(line: socket.socket) -> None:
        line.recv(1 << 16)
        said = [
            StageMessage(stage=Stage(name="simulate", step=1, total=2)),
            LogMessage(level=30, text="hot"),
            CacheGet(key=KEY),
        ]
        for message in said:
            line.sendall(encode_frame(message.model_dump()))
        line.recv(1 << 16)
        line.sendall(
            encode_frame(CachePut(key=KEY).model_dump(), b"entry") + encode_frame(CacheGet(key=KEY).model_dump())
        )
        assert line.recv(1 << 16).endswith(b"entry")
        os.write(2, b"last words")
        line.sendall(DONE)

    attended = Attended(tmp_path, acts)
    assert attended.outcome == JobOutcome(result=RESULT)
    assert attended.stages == [Stage(name="simulate", step=1, total=2)]
    assert [line.split(" ", 1)[1] for line in attended.lines] == ["WARNING hot", "last words"]


def test_a_problem_said_before_the_work_was_heard(tmp_path: Path) -> None:
    def acts(line: socket.socket) -> None:
        line.sendall(encode_frame(Failed(problem=problem("x", "X.", "x")).model_dump(mode="json")))

    assert Attended(tmp_path, acts).slug == "x"


def stay(_line: socket.socket) -> None:
    while True:
        signal.pause()


def test_the_clock(tmp_path: Path) -> None:
    attended = Attended(tmp_path, stay, seconds=0.5)
    assert attended.slug == "time-limit"


def test_ended_elsewhere(tmp_path: Path) -> None:
    looks = itertools.count()
    attended = Attended(tmp_path, stay, stopped=lambda: next(looks) == 3)
    assert attended.outcome == JobOutcome()


def test_one_that_never_reads(tmp_path: Path) -> None:
    def acts(line: socket.socket) -> None:
        get = encode_frame(CacheGet(key=KEY).model_dump())
        # at once: after the first it is not listened to until it reads
        line.sendall(encode_frame(CachePut(key=KEY).model_dump(), bytes(1 << 20)) + get + get)
        while True:
            line.sendall(get)

    death = Attended(tmp_path, acts).outcome.death
    assert death is not None
    assert "asks twice" in death


@pytest.mark.slow
def test_one_that_does_not_read_its_answer(tmp_path: Path) -> None:
    def acts(line: socket.socket) -> None:
        line.sendall(encode_frame(CachePut(key=KEY).model_dump(), bytes(1 << 22)))
        line.sendall(encode_frame(CacheGet(key=KEY).model_dump()))
        stay(line)

    assert Attended(tmp_path, acts, seconds=1).slug == "time-limit"


@pytest.mark.parametrize("data", [b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n", encode_frame({"kind": "exit"})])
def test_one_that_says_what_it_must_not(tmp_path: Path, data: bytes) -> None:
    attended = Attended(tmp_path, lambda line: line.sendall(data) or stay(line))
    assert "invalid message" in str(attended.outcome.death)


@pytest.mark.slow
def test_one_that_hangs_up_and_stays(tmp_path: Path) -> None:
    attended = Attended(tmp_path, lambda line: line.close() or stay(line))
    assert attended.outcome.death == "the process hung up and went on"


def end_by_segfault() -> None:
    # pytest's handler would print the stacks of threads that the child does not have, which may end in another signal
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize(
    ("leave", "told"),
    [
        (end_by_segfault, "SIGSEGV"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
        (lambda: os._exit(3), "exit status 3"),
        (lambda: os._exit(0), "exit status 0"),
    ],
)
def test_deaths(tmp_path: Path, leave: Callable[[], None], told: str) -> None:
    assert told in str(Attended(tmp_path, lambda _line: leave()).outcome.death)


@pytest.mark.parametrize("how", ["status", "words"])
def test_out_of_memory(tmp_path: Path, how: str) -> None:
    def acts(_line: socket.socket) -> None:
        if how == "status":
            os._exit(OUT_OF_MEMORY_STATUS)
        os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
        os.kill(os.getpid(), signal.SIGKILL)

    assert Attended(tmp_path, acts).slug == "memory-limit"


def test_out_of_processor_time(tmp_path: Path) -> None:
    assert Attended(tmp_path, lambda _line: os.kill(os.getpid(), signal.SIGXCPU)).slug == "time-limit"


@pytest.mark.slow
def test_too_much_on_the_disk(tmp_path: Path) -> None:
    def acts(line: socket.socket) -> None:
        (tmp_path / OUTPUT_FOLDER / "file").write_bytes(bytes(5000))
        stay(line)

    attended = Attended(tmp_path, acts, job_output_bytes=4999)
    assert attended.slug == "output-limit"


@pytest.mark.skipif(sys.platform != "linux", reason="looks through /proc")
def test_what_it_started_goes_with_it(tmp_path: Path) -> None:
    def acts(line: socket.socket) -> None:
        if (pid := os.fork()) == 0:
            stay(line)
        (tmp_path / "pid").write_text(str(pid))
        line.sendall(DONE)

    Attended(tmp_path, acts)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
            break
        time.sleep(0.02)
    else:
        assert not Path(f"/proc/{pid}").exists()


class Hanging:
    """A cache over a store that hangs."""

    def __init__(self) -> None:
        self.asked, self.back = threading.Event(), threading.Event()
        self.answered = False

    def get(self, _key: str) -> bytes | None:
        self.put("", b"")
        return b"entry"

    def put(self, _key: str, _data: bytes) -> None:
        self.asked.set()
        self.back.wait(60)
        self.answered = True


@pytest.mark.slow
@pytest.mark.parametrize(
    "message", rest_all([CacheGet(key=KEY), CachePut(key=KEY), StageMessage(stage=Stage(name="a", step=1, total=1))])
)
def test_a_store_that_hangs_keeps_nobody_from_looking_at_the_clock(
    tmp_path: Path, message: CacheGet | CachePut | StageMessage
) -> None:
    def acts(line: socket.socket) -> None:
        for _ in range(3):
            line.sendall(encode_frame(message.model_dump()))
        stay(line)

    hanging = Hanging()
    stage = (lambda _stage: hanging.put("", b"")) if isinstance(message, StageMessage) else None
    stopped = Attended(tmp_path, acts, stopped=hanging.asked.is_set, cache=hanging, stage=stage)
    assert stopped.outcome == JobOutcome()
    assert not hanging.answered  # it was not waited for
    hanging.back.set()


def test_a_store_that_comes_back_answers(tmp_path: Path) -> None:
    def acts(line: socket.socket) -> None:
        line.recv(1 << 16)
        line.sendall(encode_frame(CachePut(key=KEY).model_dump(), b"x") + encode_frame(CacheGet(key=KEY).model_dump()))
        os.write(2, b"meanwhile")
        assert line.recv(1 << 16).endswith(b"entry")
        line.sendall(DONE)

    hanging = Hanging()
    threading.Timer(0.5, hanging.back.set).start()
    attended = Attended(tmp_path, acts, cache=hanging)
    assert attended.outcome == JobOutcome(result=RESULT)
    assert attended.lines[0].endswith("meanwhile")
