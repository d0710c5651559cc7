import logging
from pathlib import Path

from worker.runner.job_reporting import JobLog


def saved(log: JobLog, directory: Path) -> list[str]:
    log.save(directory)
    path = directory / "log.txt"
    return [line.split(" ", 1)[1] for line in path.read_text().splitlines()] if path.exists() else []


def test_lines_of_all_sorts(tmp_path: Path) -> None:
    told: list[str] = []
    log = JobLog("job", 10_000, told.append)
    log.add(logging.WARNING, "one\ntwo")
    log.add_output(b"thr")
    log.add_output(b"ee\n\xff\nfo")
    log.add_output(b"ur")
    log.add_output(b"")
    assert saved(log, tmp_path) == ["WARNING one", "WARNING two", "three", "\ufffd", "four"]
    assert [line.split(" ", 1)[1] for line in told] == saved(log, tmp_path)
    assert log.tail == "one\ntwothree\n\ufffd\nfour"


def test_so_much_and_no_more(tmp_path: Path) -> None:
    told: list[str] = []
    log = JobLog("job", 1000, told.append)
    for _ in range(100):
        log.add_output(b"x" * 100 + b"\n")
    log.add_output(b"y" * 100_000)
    assert len((tmp_path / "log.txt").read_bytes() if saved(log, tmp_path) else b"") < 1100
    assert told[-1] == "and more, which is left out"


def test_nothing_logged_nothing_left(tmp_path: Path) -> None:
    assert saved(JobLog("job", 1000, print), tmp_path) == []


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("as it was")
    (tmp_path / "log.txt").symlink_to(tmp_path / "victim")
    log = JobLog("job", 1000, lambda _line: None)
    log.add_output(b"x\n")
    log.save(tmp_path)
    assert (tmp_path / "victim").read_text() == "as it was"
