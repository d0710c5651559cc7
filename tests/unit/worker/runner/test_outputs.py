from pathlib import Path

import pytest

from accel.util.whole_files import whole_file, write_whole
from worker.runner import job_outputs
from worker.runner.job_outputs import OutputLimitError, check_outputs, output_files


def test_bytes_are_counted_in_all_folders(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(bytes(5000))
    (tmp_path / "two").write_bytes(bytes(5000))
    check_outputs(tmp_path, 16384)
    with pytest.raises(OutputLimitError, match="more than 9999 bytes") as caught:
        check_outputs(tmp_path, 9999)
    assert caught.value.problem.type == "/problems/output-limit"


def test_a_file_with_holes_counts_as_large_as_it_reads(tmp_path: Path) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(OutputLimitError):
        check_outputs(tmp_path, 1 << 29)


def test_files_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_outputs, "MOST_FILES", 3)
    for name in "abcd":
        (tmp_path / name).touch()
    with pytest.raises(OutputLimitError, match="more than 3 files"):
        check_outputs(tmp_path, 1 << 30)


def test_what_is_not_there_has_nothing(tmp_path: Path) -> None:
    check_outputs(tmp_path / "none", 1)
    assert output_files(tmp_path / "none") == {}


def test_what_was_being_written_is_no_artifact(tmp_path: Path) -> None:
    """It would catch a job that is killed while it writes: half a file, or the folder of its constants, published."""
    (tmp_path / ".tmp1").mkdir()
    (tmp_path / ".tmp1" / "weights-0.bin").touch()
    (tmp_path / "tir").mkdir()
    write_whole(tmp_path / "tir" / "00.txt", "whole")
    whole = {"tir/00.txt": tmp_path / "tir" / "00.txt"}
    with whole_file(tmp_path / "trace.npz") as unfinished:
        unfinished.write_bytes(b"half")
        assert output_files(tmp_path) == whole
    assert output_files(tmp_path) == whole | {"trace.npz": tmp_path / "trace.npz"}
