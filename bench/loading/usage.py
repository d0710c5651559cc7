"""What processes use, by /proc."""

import contextlib
import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

_TICKS = os.sysconf("SC_CLK_TCK")


class Memory(NamedTuple):
    """Bytes: resident; and the share of what is resident, pages of several processes divided by their number."""

    rss: int
    pss: int


def cpu_seconds(pid: int) -> float:
    """Processor time of a process, and of the children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / _TICKS


def own_cpu_seconds(pid: int) -> float:
    """The same without children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / _TICKS


def machine_seconds() -> float:
    """Processor time of everything on this machine."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS


def memory(pid: int) -> Memory:
    """Now; FileNotFoundError if the process is gone."""
    found = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        found[name] = int(rest.split()[0]) << 10
    return Memory(found["Rss"], found["Pss"])


def descendants(pid: int) -> list[int]:
    """All processes below this one."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, look = [], [pid]
    while look:
        below = parents.get(look.pop(), [])
        found += below
        look += below
    return found


def tree_cpu_seconds(pid: int) -> float:
    """Processor time of a process, of those below it, and of the children that they have waited for."""
    found = cpu_seconds(pid)
    for below in descendants(pid):
        with contextlib.suppress(OSError):  # it has ended
            found += cpu_seconds(below)
    return found


def name(pid: int) -> str:
    """The name; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def command(pid: int) -> str:
    """The command line; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def pin(pid: int, cores: set[int]) -> None:
    """Leave the process's threads, and those that they start, these cores."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)


class Watched:
    """The memory of a group of processes while a context lasts: the most that it was.

    Args:
        root: the process.
        tree: whether those below it count too, by what they share; else the process alone.
        every: seconds between two looks.
    """

    def __init__(self, root: int, *, tree: bool = False, every: float = 0.02) -> None:
        self._root = root
        self._tree = tree
        self._every = every
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.most = Memory(0, 0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def now(self) -> Memory:
        """As it is."""
        found = Memory(0, 0)
        for pid in (self._root, *(descendants(self._root) if self._tree else ())):
            try:
                one = memory(pid)
            except (OSError, KeyError):
                continue
            found = Memory(found.rss + one.rss, found.pss + one.pss)
        return found

    def _look(self) -> None:
        while not self._over.is_set():
            one = self.now()
            self.most = Memory(max(self.most.rss, one.rss), max(self.most.pss, one.pss))
            time.sleep(self._every)
