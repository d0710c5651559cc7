"""How a process ended, in words."""

import os
import signal

_HINTS: dict[int, str] = {
    signal.SIGKILL: "somebody or the kernel killed it, perhaps for want of memory",
    signal.SIGXCPU: "it used up its processor time",
    signal.SIGSEGV: "native code reached beyond its memory",
    signal.SIGABRT: "native code gave up, perhaps for want of memory",
}


def death_reason(status: int | None) -> str:
    """A sentence on how a process ended, from its wait status."""
    if status is None:
        return "the process vanished"
    if not os.WIFSIGNALED(status):
        return f"the process left with exit status {os.waitstatus_to_exitcode(status)}"
    return signal_reason(os.WTERMSIG(status))


def signal_reason(number: int) -> str:
    """A sentence on a process that a signal ended."""
    name = signal.Signals(number).name
    return f"the process was ended by {name}" + (f": {_HINTS[number]}" if number in _HINTS else "")
