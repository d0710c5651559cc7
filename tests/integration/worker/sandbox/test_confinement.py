"""Confinement for real: a child tries what it must not do."""

import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from accel.isa.kernels.compiled_kernels import cache_home
from tests.helpers.confined import confined, need, outcome, told_by_child, told_by_confined
from worker.sandbox import confinement as module
from worker.sandbox.confinement_status import Mechanism

ABSENT = Mechanism(active=False, detail="not here")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data directory with a store, and another job's scratch directory."""
    for name in ("store/model", "scratch/other/model"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True)
        path.write_text("secret")
    return tmp_path


def test_what_is_active_is_told(root: Path) -> None:
    found = outcome(root)
    assert found.limits.active
    assert found.descriptors.active
    assert all(mechanism.detail for mechanism in (getattr(found, name) for name in type(found).model_fields))
    if sys.platform == "linux":
        assert found.privileges.active
        assert "bytes of address space" in found.limits.detail


def test_the_parent_stays_free(root: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    outcome(root)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
    socket.socket().close()
    assert (root / "data/store/model").read_text() == "secret"


def test_temporary_files_lie_in_the_scratch_directory(root: Path) -> None:
    def look() -> str:
        with tempfile.NamedTemporaryFile() as file:
            return f"{os.environ['TMPDIR']} {Path(file.name).parent}"

    expected = str((root / "data/scratch/job/tmp").resolve())
    assert told_by_confined(root, look) == f"{expected} {expected}"


# files


def test_its_own_directory_is_its_own(root: Path) -> None:
    def work() -> str:
        scratch = root / "data/scratch/job"
        (scratch / "out").mkdir()
        (scratch / "out/a").write_text("1")
        (scratch / "out/a").rename(scratch / "b")
        os.truncate(os.open(scratch / "b", os.O_RDWR), 0)
        (scratch / "b").unlink()
        shutil.rmtree(scratch / "out")
        Path(os.devnull).write_text("x")
        return "done"

    assert told_by_confined(root, work) == "done"


@pytest.mark.parametrize("path", ["data/store/model", "data/scratch/other/model", "/etc/passwd", "/proc/1/status"])
def test_nothing_else_is_read(root: Path, path: str) -> None:
    need(root, "files")
    assert told_by_confined(root, (root / path).read_bytes) == "PermissionError"
    assert told_by_confined(root, lambda: os.listdir((root / path).parent)) == "PermissionError"  # noqa: PTH208


@pytest.mark.parametrize("path", ["data/store/new", "data/scratch/new", "../new", "/dev/shm/new", "/tmp/new"])
def test_nothing_else_is_written(root: Path, path: str) -> None:
    need(root, "files")
    assert told_by_confined(root, lambda: (root / path).write_text("x")) == "PermissionError"


def test_links_lead_nowhere(root: Path) -> None:
    need(root, "files")
    scratch = root / "data/scratch/job"

    def read_link() -> str:
        (scratch / "link").symlink_to(root / "data/store/model")
        return (scratch / "link").read_text()

    assert told_by_confined(root, read_link) == "PermissionError"
    refused = ("PermissionError", "OSError")  # EXDEV
    assert told_by_confined(root, lambda: (scratch / "hard").hardlink_to(root / "data/store/model")) in refused
    assert told_by_confined(root, lambda: (root / "data/store/model").rename(scratch / "taken")) in refused


def test_files_that_cannot_be_opened_cannot_be_changed(root: Path) -> None:
    need(root, "calls")
    secret = root / "data/store/model"
    for change in (lambda: secret.chmod(0), lambda: os.chown(secret, 1, 1), lambda: os.truncate(secret, 0)):
        assert told_by_confined(root, change) == "PermissionError"
    assert secret.read_text() == "secret"


def test_the_folder_of_machine_code_is_not_writable(root: Path) -> None:
    need(root, "files")
    cache_home().mkdir(mode=0o700, parents=True, exist_ok=True)
    assert told_by_confined(root, lambda: (cache_home() / "planted").write_text("x")) == "PermissionError"


# connections


def test_no_connection_is_made(root: Path) -> None:
    need(root, "calls")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        assert told_by_confined(root, lambda: socket.create_connection(address)) == "PermissionError"
    assert told_by_confined(root, lambda: socket.socket(socket.AF_UNIX)) == "PermissionError"


def test_a_network_of_its_own_has_nobody_in_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(root, "namespaces")
    monkeypatch.setattr(module, "refuse_calls", lambda: ABSENT)
    monkeypatch.setattr(module, "restrict_files", lambda *_: ABSENT)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        assert told_by_confined(root, lambda: socket.create_connection(address)) == "OSError"


def test_inherited_connections_are_gone_and_pairs_remain(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert told_by_confined(root, lambda: client.send(b"x")) == "OSError"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert told_by_confined(root, lambda: theirs.send(b"hello")) == "5"
        assert ours.recv(10) == b"hello"


def test_an_inherited_unix_connection_is_gone(root: Path) -> None:
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{short}/s")
        server.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"{short}/s")
            assert told_by_confined(root, lambda: client.send(b"x")) == "OSError"


def test_inherited_directories_and_writable_files_are_gone(root: Path) -> None:
    store = os.open(root / "data/store", os.O_RDONLY)
    with (root / "data/store/model").open("r+b", buffering=0) as file:
        assert told_by_confined(root, lambda: os.open("model", os.O_RDONLY, dir_fd=store)) == "NotADirectoryError"
        told_by_confined(root, lambda: file.write(b"x"))
    os.close(store)
    assert (root / "data/store/model").read_text() == "secret"


# processes


@pytest.mark.parametrize(
    "start", [os.fork, lambda: os.execv("/bin/true", ["true"]), lambda: subprocess.run(["/bin/true"], check=True)]
)
def test_no_other_program_and_no_other_process(root: Path, start: Callable[[], object]) -> None:
    need(root, "calls")
    assert told_by_confined(root, start) == "PermissionError"


def test_programs_are_refused_by_files_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(root, "files")
    monkeypatch.setattr(module, "refuse_calls", lambda: ABSENT)
    assert told_by_confined(root, lambda: os.execv("/bin/true", ["true"])) == "PermissionError"


def test_no_other_process_is_touched(root: Path) -> None:
    need(root, "calls")
    parent = os.getpid()
    for touch in (
        lambda: os.kill(parent, 0),
        lambda: os.kill(0, 0),
        lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE, (9, 9)),
        lambda: os.pidfd_open(parent),
        lambda: os.setpriority(os.PRIO_USER, 0, 19),
    ):
        assert told_by_confined(root, touch) == "PermissionError"


def test_it_may_end_itself(root: Path) -> None:
    assert told_by_confined(root, os.abort) == "signal 6"


def test_threads_work(root: Path) -> None:
    def run() -> int:
        done: list[int] = []
        threads = [threading.Thread(target=done.append, args=(n,)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(done)

    assert told_by_confined(root, run) == "20"


def test_threads_that_start_later_are_confined(root: Path) -> None:
    need(root, "files", "calls")

    def run() -> list[str]:
        found: list[str] = []

        def attempt() -> None:
            for work in (socket.socket, (root / "data/store/model").read_text):
                try:
                    work()
                except PermissionError:
                    found.append("refused")

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        return found

    assert told_by_confined(root, run) == "['refused', 'refused']"


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """A directory that everybody may write to: the limit of processes is not for root."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root, to become nobody")
@pytest.mark.parametrize("apart", [True, False])
def test_a_fork_bomb_stops(nobodys: Path, monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    monkeypatch.setattr(module, "refuse_calls", lambda: ABSENT)  # which would refuse the first fork
    if not apart:
        monkeypatch.setattr(module, "enter_namespaces", lambda: ABSENT)

    def bomb() -> str:
        os.setresuid(65534, 65534, 65534)
        confined(nobodys, job_tasks=20)
        children = []
        try:
            while len(children) < 200:
                pid = os.fork()
                if pid == 0:
                    threading.Event().wait(10)
                    os._exit(0)
                children.append(pid)
        except BlockingIOError:
            return f"stopped {len(children) <= 100}"  # others may have had processes as the same user
        finally:
            for pid in children:
                os.kill(pid, 9)
        return "never"

    assert told_by_child(bomb) == "stopped True"


# limits


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not limit the address space")
def test_memory(root: Path) -> None:
    assert told_by_confined(root, lambda: bytearray(1 << 36), job_memory_bytes=1 << 35) == "MemoryError"


def test_file_size(root: Path) -> None:
    scratch = root / "data/scratch/job"
    assert told_by_confined(root, lambda: (scratch / "big").write_bytes(bytes(8192)), job_file_bytes=4096) == "OSError"


@pytest.mark.slow
def test_processor_time(root: Path) -> None:
    def spin() -> None:
        while True:
            pass

    assert told_by_confined(root, spin, job_cpu_seconds=1) == "signal 24"  # SIGXCPU


# where there is nothing


def test_limits_remain_where_there_is_nothing_else(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    found = outcome(root)
    assert found.limits.active
    others = (found.namespaces, found.privileges, found.files, found.calls)
    assert all(not mechanism.active and mechanism.detail == "Linux only" for mechanism in others)
    assert "address space" not in found.limits.detail


def test_data_in_a_directory_of_the_system_are_not_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "readable_files", lambda: frozenset({tmp_path}))
    need(tmp_path, "files")
    (tmp_path / "data/store").mkdir(parents=True)
    (tmp_path / "data/store/model").write_text("secret")
    assert told_by_confined(tmp_path, (tmp_path / "data/store/model").read_text) == "PermissionError"


# what a job does


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is nothing to try it under")
def test_tvm_llvm_and_onnxruntime_work(root: Path) -> None:
    script = Path(__file__).with_name("confined_work.py")
    environment = os.environ | {"XDG_CACHE_HOME": str(root / "cache"), "TVM_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, script, root],
        env=environment,
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["onnxruntime", "llvm", "tvm"], done.stdout + done.stderr
