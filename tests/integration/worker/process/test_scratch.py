import errno
import fcntl
import os
import time
from pathlib import Path

import pytest

from worker.process.scratch import scratch_directory, sweep_scratch


def age(directory: Path) -> None:
    os.utime(directory, (time.time() - 60,) * 2)


def test_is_there_and_gone(tmp_path: Path) -> None:
    with scratch_directory(tmp_path, "plan") as one, scratch_directory(tmp_path, "plan") as other:
        assert one != other
        (one / "file").write_bytes(b"x")
    assert list(tmp_path.iterdir()) == []


def test_what_dead_processes_left_is_swept(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        with scratch_directory(tmp_path, "job-1"):
            os._exit(0)
    os.waitpid(child, 0)
    (dead,) = tmp_path.iterdir()
    (dead / "body").write_bytes(b"x")
    (tmp_path / "job-young").mkdir()
    (tmp_path / "file").touch()
    with scratch_directory(tmp_path, "upload") as held:
        sweep_scratch(tmp_path)
        assert dead.exists()  # it may not have come to lock it
        for directory in (dead, held, tmp_path / "file"):
            age(directory)
        sweep_scratch(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {held.name, "file", "job-young"}


def test_where_nothing_can_be_locked_nothing_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EBADF, "as NFS says it")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with scratch_directory(tmp_path, "upload") as held:
        age(held)
        sweep_scratch(tmp_path)
        assert held.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_where_there_is_no_folder_nothing_is_swept(tmp_path: Path) -> None:
    sweep_scratch(tmp_path / "none")
