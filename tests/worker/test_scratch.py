import os
import time
from pathlib import Path

from worker.scratch import scratch_directory, sweep


def age(directory: Path) -> None:
    os.utime(directory, (time.time() - 60,) * 2)


def test_is_there_and_gone(tmp_path: Path) -> None:
    with scratch_directory(tmp_path, "a" * 32) as one, scratch_directory(tmp_path, "a" * 32) as other:
        assert one != other
        (one / "file").write_bytes(b"x")
    assert list(tmp_path.iterdir()) == []


def test_what_dead_processes_left_is_swept(tmp_path: Path) -> None:
    if os.fork() == 0:
        with scratch_directory(tmp_path, "d" * 32):
            os._exit(0)
    os.wait()
    (dead,) = tmp_path.iterdir()
    (tmp_path / "upload-x").mkdir()
    (tmp_path / "job-young").mkdir()
    with scratch_directory(tmp_path, "e" * 32) as held:
        sweep(tmp_path)
        assert dead.exists()  # it may not have come to lock it
        for directory in (dead, held, tmp_path / "upload-x"):
            age(directory)
        sweep(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {held.name, "upload-x", "job-young"}
