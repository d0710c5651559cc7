"""The filter of system calls, run by a reading of the classic BPF machine of our own."""

import errno
import re
import struct
from pathlib import Path

import pytest

from worker.process.libc import MACHINES, machine
from worker.sandbox import syscall_table
from worker.sandbox.seccomp import program
from worker.sandbox.syscall_table import REFUSED

ARCHITECTURES = (0xC000003E, 0xC00000B7)
ALLOW, KILL = "allow", "kill"
PROCESS = 4321
HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
GENERIC = Path("/usr/include/asm-generic/unistd.h")


def answer(index: int, number: int, *arguments: int, architecture: int | None = None) -> str | int:
    """What the filter of the machine says of a call: allow, kill or an error number."""
    given = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<iIQ6Q", number, architecture or ARCHITECTURES[index], 0, *given)
    code = program(index, PROCESS)
    at, accumulator = 0, 0
    while True:
        operation, then, otherwise, value = struct.unpack_from("<HBBI", code, 8 * at)
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif operation == 0x06:
            return {0x7FFF0000: ALLOW, 0x80000000: KILL}.get(value) or value & 0xFFFF
        else:
            holds = {0x15: accumulator == value, 0x25: accumulator > value, 0x45: bool(accumulator & value)}[operation]
            at += then if holds else otherwise


@pytest.fixture(params=range(len(MACHINES)), ids=MACHINES)
def index(request: pytest.FixtureRequest) -> int:
    return request.param


def test_calls_of_the_list_are_refused_and_no_others(index: int) -> None:
    refused = {numbers[index] for numbers in REFUSED.values()} - {None}
    judged = {
        numbers[index]
        for numbers in (
            syscall_table.CLONE,
            syscall_table.CLONE3,
            syscall_table.KILL,
            syscall_table.TGKILL,
            syscall_table.PRCTL,
            syscall_table.PRLIMIT,
            syscall_table.IOCTL,
        )
    }
    assert not refused & judged
    for number in set(range(syscall_table.LAST + 1)) - judged:
        assert answer(index, number) == (errno.EPERM if number in refused else ALLOW), number


def test_calls_that_are_newer_than_the_list_are_unknown(index: int) -> None:
    assert {answer(index, number) for number in range(syscall_table.LAST + 1, syscall_table.LAST + 100)} == {
        errno.ENOSYS
    }
    assert answer(index, syscall_table.CLONE3[index]) == errno.ENOSYS


def test_another_machines_calls_end_the_process(index: int) -> None:
    for architecture in (0x40000003, 0x40000028, ARCHITECTURES[1 - index]):  # i386, arm
        assert answer(index, 0, architecture=architecture) == KILL


def test_calls_with_short_pointers_are_refused() -> None:
    assert {answer(0, 0x40000000 | number) for number in range(600)} == {errno.EPERM}
    assert answer(0, -1) == errno.EPERM


def test_threads_are_made_and_processes_are_not(index: int) -> None:
    thread = 0x3D0F00  # as the C library asks for one
    assert answer(index, syscall_table.CLONE[index], thread) == ALLOW
    assert answer(index, syscall_table.CLONE[index], 0x01200011) == errno.EPERM
    assert answer(index, syscall_table.CLONE[index], 0x10000000 | 17) == errno.EPERM


def test_signals_and_limits_of_this_process_only(index: int) -> None:
    for numbers in (syscall_table.KILL, syscall_table.TGKILL):
        assert answer(index, numbers[index], PROCESS) == ALLOW
        assert {answer(index, numbers[index], other) for other in (0, 1, PROCESS + 1, 2**32 - 1)} == {errno.EPERM}
    assert (
        answer(index, syscall_table.PRLIMIT[index], 0) == answer(index, syscall_table.PRLIMIT[index], PROCESS) == ALLOW
    )
    assert answer(index, syscall_table.PRLIMIT[index], 1) == errno.EPERM


def test_other_arguments_that_decide(index: int) -> None:
    assert answer(index, syscall_table.PRCTL[index], 1) == errno.EPERM  # another death signal
    assert answer(index, syscall_table.PRCTL[index], 15) == ALLOW
    for request in (0x5412, 0x541C, 1 << 32 | 0x5412):  # type into the terminal
        assert answer(index, syscall_table.IOCTL[index], 0, request) == errno.EPERM
    assert answer(index, syscall_table.IOCTL[index], 0, 0x5401) == ALLOW


@pytest.mark.parametrize(("index", "header"), [(0, HEADER), (1, GENERIC)], ids=MACHINES)
def test_the_numbers_are_those_of_the_system(index: int, header: Path) -> None:
    if not header.exists():
        pytest.skip(f"there is no {header}")
    known = {
        name: int(number)
        for name, number in re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text(), re.MULTILINE)
    }
    given = {
        name: value
        for name, value in vars(syscall_table).items()
        if name in ("CLONE", "CLONE3", "KILL", "TGKILL", "PRCTL")
    }
    listed = REFUSED | {name.lower(): numbers for name, numbers in given.items()}
    listed |= {"prlimit64": syscall_table.PRLIMIT, "ioctl": syscall_table.IOCTL, "seccomp": syscall_table.SECCOMP}
    wrong = {name for name, numbers in listed.items() if name in known and known[name] != numbers[index]}
    assert not wrong
    assert len(known.keys() & listed.keys()) > 80


@pytest.mark.parametrize(
    ("name", "pointer", "expected"),
    [("x86_64", 8, 0), ("aarch64", 8, 1), ("x86_64", 4, None), ("riscv64", 8, None)],
)
def test_a_machine_is_known_or_has_no_filter(
    monkeypatch: pytest.MonkeyPatch, name: str, pointer: int, expected: int | None
) -> None:
    monkeypatch.setattr("platform.machine", lambda: name)
    monkeypatch.setattr("ctypes.sizeof", lambda _kind: pointer)
    assert machine() == expected
