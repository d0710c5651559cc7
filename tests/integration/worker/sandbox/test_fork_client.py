"""Tasks in forked processes: their answers, and every way that they can end."""

import contextlib
import errno
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from worker.config.settings import Settings
from worker.inspection.task_arguments import NoArguments
from worker.sandbox.confined_tasks import ConfinedTasks
from worker.sandbox.fork_client import ForkClient, NotStartedError, TaskOutcome, TaskTimeoutError

TASKS = textwrap.dedent(
    """
    import errno, json, os, pathlib, signal, sys, time

    sys.modules["__main__"]._SETTLED_AFTER = 0.2  # the server's
    fork = os.fork

    def fork_if_any_is_left():
        if pathlib.Path(__file__).with_name("no-process").exists():
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return fork()

    os.fork = fork_if_any_is_left

    def echo(given):
        return given

    def die(given):
        os.kill(os.getpid(), int(given))

    def fail(given):
        raise ValueError(given)

    def rest(given):
        time.sleep(float(given))
        return b""

    def identify(given):
        return f"{os.getpid()} {os.getppid()}".encode()

    def environment(given):
        with open("/proc/self/environ") as file:
            return json.dumps([*os.environ, file.read()]).encode()

    def flood(given):
        return bytes(int(given))

    def garble(given):
        for descriptor in range(3, 20):
            try:
                os.write(descriptor, bytes(range(100)))
            except OSError:
                pass
        os._exit(0)

    TASKS = dict(echo=echo, die=die, fail=fail, rest=rest, identify=identify, flood=flood, garble=garble,
        environment=environment)
    """
)
Run = Callable[..., TaskOutcome]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkClient]:
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "tasks_of_a_test.py").write_text(TASKS)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), str(Path(__file__).parents[4]), *filter(None, [before])])
    with contextlib.closing(ForkClient("tasks_of_a_test")) as forked:
        forked.start()
        yield forked
    os.environ.pop("PYTHONPATH")
    if before is not None:
        os.environ["PYTHONPATH"] = before


@pytest.fixture
def no_process(server: ForkClient) -> Path:
    """A file while which is there the server cannot fork."""
    del server
    return Path(os.environ["PYTHONPATH"].split(os.pathsep)[0]) / "no-process"


@pytest.fixture
def run(server: ForkClient) -> Run:
    def ask(task: str, given: bytes = b"", seconds: float = 10, most_bytes: int = 1 << 20) -> TaskOutcome:
        return server.run(task, given, seconds=seconds, most_bytes=most_bytes)

    return ask


def test_an_answer(run: Run) -> None:
    assert run("echo", b"hello") == TaskOutcome(b"hello", 0)
    assert run("echo", b"") == TaskOutcome(b"", 0)
    assert run("echo", bytes(1 << 20)) == TaskOutcome(bytes(1 << 20), 0)


def test_an_answer_once_its_memory_lies_on_large_pages(run: Run) -> None:
    assert run("echo", b"abc").answer == b"abc"
    time.sleep(0.5)
    assert run("echo", b"abc").answer == b"abc"


def test_each_in_a_process_of_its_own_that_is_gone(run: Run) -> None:
    first, second = (run("identify").answer.split() for _ in range(2))
    assert first[0] != second[0]
    assert first[1] == second[1]
    with pytest.raises(ProcessLookupError):
        os.kill(int(first[0]), 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGXCPU])
def test_a_death_is_told(run: Run, number: int) -> None:
    ended = run("die", str(int(number)).encode())
    assert ended.answer is None
    assert os.WTERMSIG(ended.status) == number
    assert run("echo", b"next").answer == b"next"


def test_an_exception_is_told(run: Run) -> None:
    assert run("fail") == TaskOutcome(None, 1 << 8)
    assert run("no-such-task") == TaskOutcome(None, 1 << 8)


def test_it_takes_too_long(run: Run) -> None:
    with pytest.raises(TaskTimeoutError):
        run("rest", b"600", seconds=0.3)
    assert run("echo", b"next").answer == b"next"


def test_what_is_given_up_is_killed(server: ForkClient, run: Run) -> None:
    pid = int(run("identify").answer.split()[1])
    with pytest.raises(TaskTimeoutError):
        run("rest", b"600", seconds=0.2)
    if sys.platform == "linux":
        children = Path(f"/proc/{pid}/task/{pid}/children")
        deadline = time.monotonic() + 60
        while children.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_an_answer_is_bounded(run: Run) -> None:
    assert run("flood", b"1000", most_bytes=1000).answer == bytes(1000)
    assert run("flood", b"1001", most_bytes=1000).answer is None
    assert run("flood", str(1 << 28).encode(), most_bytes=1000).answer is None


def test_an_answer_that_is_none(run: Run) -> None:
    assert run("garble").answer is None


@pytest.mark.slow
def test_many_at_once(run: Run) -> None:
    with ThreadPoolExecutor(20) as threads:
        given = [str(number).encode() for number in range(100)]
        assert [ended.answer for ended in threads.map(lambda one: run("echo", one), given)] == given


@pytest.mark.slow
def test_a_server_that_died_is_started_again(run: Run) -> None:
    pid = int(run("identify").answer.split()[1])
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while run("echo", b"x").answer != b"x":  # one that was asked for as it died has no answer
        assert time.monotonic() < deadline


@pytest.mark.slow
def test_the_server_ends_with_the_one_who_asks() -> None:
    forked = ForkClient("worker.inspection.upload_tasks")
    forked.start()
    process = forked._server[0]
    forked.close()
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at its environment through /proc")
def test_a_task_sees_no_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch, server: ForkClient) -> None:
    del server  # its fixture says where the module lies
    secrets = ("CYCLOPS_REDIS_PASSWORD", "CYCLOPS_REDIS_URL", "AWS_SECRET_ACCESS_KEY", "TOKEN_OF_A_TEST")
    for name in secrets:
        monkeypatch.setenv(name, "hunter2")
    with contextlib.closing(ForkClient("tasks_of_a_test")) as forked:
        answer = forked.run("environment", b"", seconds=10, most_bytes=1 << 20).answer
    *names, begun_with = json.loads(answer or b"[]")
    assert "PATH" in names
    assert not set(names) & set(secrets)
    assert "hunter2" not in begun_with


@pytest.mark.slow
def test_without_a_process_to_spare_the_task_is_told_and_the_others_go_on(
    server: ForkClient, run: Run, no_process: Path, tmp_path: Path
) -> None:
    pid = run("identify").answer.split()[1]
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(run, "rest", b"1")
        assert run("echo", b"before").answer == b"before"
        no_process.touch()
        try:
            for _ in range(3):
                with pytest.raises(NotStartedError):
                    run("echo", bytes(1 << 20))
            with pytest.raises(NotStartedError):
                ConfinedTasks(Settings(data=tmp_path), server).ask("echo", NoArguments(), tmp_path, seconds=10)
        finally:
            no_process.unlink()
        assert other.result() == TaskOutcome(b"", 0)
    assert run("identify").answer.split()[1] == pid


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux changes the limits of another process")
def test_without_a_descriptor_to_spare_the_task_is_told(run: Run) -> None:
    pid = int(run("identify").answer.split()[1])
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        with pytest.raises(NotStartedError):
            run("echo", b"x")
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert run("identify").answer.split()[1] == str(pid).encode()


def test_a_server_that_cannot_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch, server: ForkClient) -> None:
    del server  # its fixture says where the module lies

    def fail(*_args: object, **_options: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    with contextlib.closing(ForkClient("tasks_of_a_test")) as forked:
        with monkeypatch.context() as patched:
            patched.setattr(subprocess, "Popen", fail)
            forked.start()
            with pytest.raises(NotStartedError):
                forked.run("echo", b"x", seconds=10, most_bytes=10)
        assert forked.run("echo", b"x", seconds=10, most_bytes=10).answer == b"x"
