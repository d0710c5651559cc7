import os
import signal
import sys
from collections.abc import Callable

import pytest

from worker.config.settings import Settings
from worker.sandbox.resource_limits import apply_limits, job_limits, plan_limits


def status_of_child(work: Callable[[], None], **limits: int) -> int:
    """The wait status of a limited child that does the work; 0 if it came to the end."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            apply_limits(job_limits(Settings(**limits)))
            work()
            code = 0
        except MemoryError:
            code = 40
        except OSError:
            code = 41
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def spin() -> None:
    while True:
        pass


def test_work_within_the_limits() -> None:
    assert status_of_child(lambda: None) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not limit the address space")
def test_memory() -> None:
    assert os.waitstatus_to_exitcode(status_of_child(lambda: bytearray(1 << 36), job_memory_bytes=1 << 35)) == 40


@pytest.mark.slow
def test_processor_time() -> None:
    assert os.WTERMSIG(status_of_child(spin, job_cpu_seconds=1)) == signal.SIGXCPU


def test_file_size(tmp_path: object) -> None:
    def write() -> None:
        with open(f"{tmp_path}/file", "wb", buffering=0) as file:  # noqa: PTH123
            file.write(bytes(4096))
            file.write(bytes(4096))

    assert os.waitstatus_to_exitcode(status_of_child(write, job_file_bytes=4096)) == 41


def test_open_files() -> None:
    def open_many() -> None:
        for _ in range(200):
            os.dup(0)

    assert os.waitstatus_to_exitcode(status_of_child(open_many, job_open_files=100)) == 41


@pytest.mark.slow
def test_a_plan_has_limits_of_its_own() -> None:
    pid = os.fork()
    if pid == 0:
        apply_limits(plan_limits(Settings(plan_cpu_seconds=1, job_cpu_seconds=100)))
        spin()
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGXCPU
