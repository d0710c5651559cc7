"""Kernels for jobs: compiled by a process of their own, once an owner, whatever a job asks for."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.isa.explicit.document_function import source_of
from accel.isa.kernels import kernel_library
from accel.isa.kernels.kernel_library import adopt_code, compile_kernel, kernel_key
from accel.simulate import prepare_simulation
from tests.helpers import processes
from tests.helpers.confined import need, told_by_confined
from tests.helpers.marking import rest_all
from worker.config.settings import Settings
from worker.process.children import start_child
from worker.runner import kernel_compiler as module
from worker.runner.kernel_compiler import FOLDER, KernelServer, OwnerKernels

SOURCE = source_of(load_accelerator("vector"))


@pytest.fixture
def server(settings: Settings) -> Iterator[KernelServer]:
    server = KernelServer(settings)
    yield server
    server.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code is the number of the process that compiles it, so that it tells one compilation from another."""
    monkeypatch.setattr(module, "compile_kernel", lambda _: b"code of %d" % os.getpid())


def kept(settings: Settings) -> list[Path]:
    return sorted(settings.data.glob(f"{FOLDER}/*/*"))


@pytest.mark.slow
def test_what_the_server_compiles_is_what_this_process_compiles(settings: Settings, server: KernelServer) -> None:
    code = OwnerKernels(settings, "ada", server).kernel_code("explicit", SOURCE.text)
    assert code == compile_kernel(SOURCE)
    kernel_library._loaded.pop(SOURCE, None)
    adopt_code(SOURCE, code)
    assert callable(kernel_library.load_kernel(SOURCE))


@pytest.mark.slow
def test_a_kernel_is_compiled_once_for_an_owner_and_by_the_next_owner_again(settings: Settings, quick: None) -> None:
    server = KernelServer(settings)
    asked = [
        OwnerKernels(settings, owner, server).kernel_code("explicit", SOURCE.text) for owner in ("ada", "ada", "bob")
    ]
    assert asked[0] == asked[1] != asked[2]
    (first, second) = kept(settings)
    assert first.name == second.name == kernel_key(SOURCE)
    assert first.parent.stat().st_mode & 0o077 == 0
    first.write_bytes(first.read_bytes()[:-1])
    again = [OwnerKernels(settings, owner, server).kernel_code("explicit", SOURCE.text) for owner in ("ada", "bob")]
    assert len({*asked, *again}) == 3  # the damaged one alone
    server.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "text"),
    rest_all(
        [("explicit", "["), ("vta", '{"geometry": 1}'), ("explicit", "{}"), ("gemmini", ""), ("none of ours", "{}")],
        keep=2,
    ),
)
def test_a_text_of_nothing_has_no_code_and_leaves_the_server_as_it_was(
    settings: Settings, server: KernelServer, family: str, text: str
) -> None:
    kernels = OwnerKernels(settings, "ada", server)
    assert kernels.kernel_code(family, text) is None
    assert kept(settings) == []
    kernels.prepare_family("none of ours")
    assert kernels.kernel_code("explicit", SOURCE.text) is not None


def test_a_job_has_so_many_compiled_and_an_owner_so_many_kept(
    settings: Settings, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_OF_JOB", 3)
    monkeypatch.setattr(module, "_MOST_KERNELS", 2)
    server = KernelServer(settings)
    kernels = OwnerKernels(settings, "ada", server)
    found = [kernels.kernel_code("explicit", str(number)) for number in range(5)]
    assert [code is not None for code in found] == [True, True, True, False, False]
    assert len(kept(settings)) == 2
    server.close()


@pytest.mark.slow
def test_code_that_is_too_large_or_takes_too_long_is_none(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    small = settings.model_copy(update={"max_cache_entry_bytes": 100})
    monkeypatch.setattr(module, "compile_kernel", lambda _: bytes(1 << 20))
    server = KernelServer(small)
    assert OwnerKernels(small, "ada", server).kernel_code("explicit", "x") is None
    server.close()
    quick = settings.model_copy(update={"plan_cpu_seconds": 1})
    monkeypatch.setattr(module, "compile_kernel", lambda _: signal.pause())
    server = KernelServer(quick)
    assert OwnerKernels(quick, "ada", server).kernel_code("explicit", "x") is None
    server.close()
    assert kept(settings) == []


def test_a_compiler_that_is_taken_over_writes_nowhere(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    need(settings.data, "files")
    shared = prepare_simulation.cache_folder()
    assert shared is not None
    places = [settings.data / FOLDER / "planted", shared / "planted", shared.parent / "planted"]

    def hostile(_: object) -> bytes:
        done = []
        for place in places:
            try:
                place.parent.mkdir(exist_ok=True)
                place.write_text("x")
                done.append(place)
            except OSError:
                pass
        return repr(done).encode()

    monkeypatch.setattr(module, "compile_kernel", hostile)
    server = KernelServer(settings)
    assert server.compile("explicit", SOURCE.text) == b"[]"
    server.close()
    assert not any(place.exists() for place in places)


@pytest.mark.slow
def test_a_confined_process_can_neither_read_nor_write_an_owners_kernels(tmp_path: Path) -> None:
    need(tmp_path, "files")
    folder = tmp_path / "data" / FOLDER / "owner"
    folder.mkdir(parents=True)
    (folder / "key").write_text("code")
    for attempt in (
        (folder / "key").read_text,
        lambda: (folder / "key").write_text("x"),
        lambda: (folder / "other").write_text("x"),
        lambda: list(folder.iterdir()),
    ):
        assert told_by_confined(tmp_path, attempt) == "PermissionError"


def test_without_a_server_there_is_no_code_and_no_failure(settings: Settings) -> None:
    before = set(processes.descendants(os.getpid()))
    server = KernelServer(settings)
    (child,) = set(processes.descendants(os.getpid())) - before
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    kernels = OwnerKernels(settings, "ada", server)
    kernels.prepare_family("explicit")
    assert kernels.kernel_code("explicit", "no kernel of ours") is None
    server.close()


def test_a_late_answer_is_not_taken_for_another(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(module, "compile_kernel", lambda _: time.sleep(1) or b"late")
    server = KernelServer(settings)
    assert [server.compile("explicit", "a"), server.compile("explicit", "b")] == [None, None]
    server.close()


def test_the_server_ends_with_its_supervisor_and_keeps_no_line_of_it(settings: Settings) -> None:
    ours, line = socket.socketpair()
    before = set(processes.descendants(os.getpid()))
    server = KernelServer(settings, line)
    (child,) = set(processes.descendants(os.getpid())) - before
    line.close()
    ours.settimeout(10)
    assert ours.recv(1) == b""  # nobody holds the other end
    server.close()
    assert os.waitpid(child, 0)[1] == 0
    ours.close()


def test_a_family_is_compiled_for_a_preset_and_only_if_it_is_not_there(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def note(accelerator: object, forks: object) -> None:
        assert forks is start_child  # the job waits
        with (tmp_path / "noted").open("a") as file:
            file.write(f"{accelerator.name}\n")  # type: ignore[attr-defined]

    monkeypatch.setattr(module, "prepare_on_disk", note)
    monkeypatch.setattr(module, "is_family_on_disk", lambda name: name == "vta")
    server = KernelServer(settings)
    kernels = OwnerKernels(settings, "ada", server)
    for name in ("vta", "explicit", "none of ours", "explicit"):  # one that leaves nothing is not tried again
        kernels.prepare_family(name)
    assert (tmp_path / "noted").read_text() == "conv-engine\n"
    server.close()
    monkeypatch.setattr(module, "cache_folder", lambda: None)  # what would be compiled would be lost
    server = KernelServer(settings)
    server.prepare_family("explicit")
    assert (tmp_path / "noted").read_text() == "conv-engine\n"
    server.close()
