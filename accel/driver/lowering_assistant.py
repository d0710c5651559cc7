"""A second process of a job, which lowers regions beside it.

Lowering is Python that drives TVM, and holds Python's lock: threads would take turns. The process is forked when TVM is
imported and the job has no threads yet, and waits for regions until the job ends. It gives back what the cache of
compiled functions keeps of a region, so that to the job a region from there is as one that was found.
"""

import os
import signal
import socket
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress

from pydantic import BaseModel

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.errors import CyclopsError
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.codegen.region_cache import LoweredBeside, dump_entry
from accel.lowering.codegen.region_object import dump_object
from accel.lowering.ir.function_attributes import load_region
from accel.lowering.pipeline import lower_region, placed_anywhere

_LENGTH = 8  # bytes of a frame's length
_BUFFER = 1 << 22  # bytes of requests that wait: the regions of a large network
_ANY_NUMBER = 1 << 62


class _Order(BaseModel):
    """What the job asks for: regions of an accelerator, which it gives before, with what is known of it."""

    accelerator: str = ""
    capabilities: str = ""
    region: str = ""
    most: int = 0
    placed: bool = False


class LoweringAssistant:
    """The job's end of the line to the process.

    Args:
        line: to the process, which may be gone.
    """

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._target: Target | None = None
        self._asked: deque[Future[LoweredBeside]] = deque()
        self._reader: threading.Thread | None = None
        self._sending = threading.Lock()  # not for receiving: who sends may wait for what is received
        self._gone = False

    def lower(
        self, target: Target, region: str, most: int = _ANY_NUMBER, *, placed: bool = False
    ) -> Future[LoweredBeside]:
        """Begins to lower a region beside; regions are lowered one after the other.

        Args:
            target: what it is for.
            region: the attribute of its function.
            most: the instructions that it may have: of one with more there is no entry.
            placed: whether its object is wanted too, with tensors anywhere.
        """
        answer: Future[LoweredBeside] = Future()
        with self._sending:
            if self._reader is None:
                self._reader = threading.Thread(target=self._read, name="assistant", daemon=True)
                self._reader.start()
            if target is not self._target:
                known = Capabilities.of(target).dump().decode()
                self._send(_Order(accelerator=target.accelerator.model_dump_json(), capabilities=known))
                self._target = target
            self._asked.append(answer)
            self._send(_Order(region=region, most=most, placed=placed))
        if self._gone:
            self._give_up()
        return answer

    def close(self) -> None:
        """Ends the process, which finishes the region that it is at."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        if self._reader is not None:
            self._reader.join()
        self._line.close()

    def _send(self, order: _Order) -> None:
        with suppress(OSError):  # the reader finds that it is gone
            _send(self._line, order.model_dump_json(exclude_defaults=True).encode())

    def _read(self) -> None:
        while (entry := _receive(self._line)) is not None and (placed := _receive(self._line)) is not None:
            if not self._answered(LoweredBeside(entry or None, placed or None)):
                break
        self._gone = True
        self._give_up()

    def _give_up(self) -> None:
        """Answer whatever was asked, in either thread: whoever asks later finds that the process is gone."""
        while self._answered(LoweredBeside(gone=True)):
            pass

    def _answered(self, answer: LoweredBeside) -> bool:
        """Give the answer to who asked first; returns False if nobody waits for any."""
        try:
            asked = self._asked.popleft()
        except IndexError:
            return False
        asked.set_result(answer)
        return True


@contextmanager
def lowering_assistant() -> Iterator[LoweringAssistant | None]:
    """Within, there is an assistant, if the system has a second processor for it and can fork.

    Call it with TVM imported and before the job starts threads: those are not in the forked process, and a lock that
    one of them holds stays locked there.
    """
    if not may_assist():
        yield None
        return
    ours, theirs = line_to_assistant()
    with warnings.catch_warnings():  # of threads: those of a progress bar hold no lock that lowering needs
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            process = os.fork()
        except OSError:
            process = -1
    if process == 0:
        _be_assistant(theirs, ours)
    theirs.close()
    if process < 0:
        ours.close()
        yield None
        return
    assistant = LoweringAssistant(ours)
    try:
        yield assistant
    finally:
        assistant.close()
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(process, 0)


def may_assist() -> bool:
    """Returns whether a second process can be forked here, and has a processor to itself."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


def line_to_assistant() -> tuple[socket.socket, socket.socket]:
    """Returns the two ends of a line: the job's, for :class:`LoweringAssistant`, and the other, for :func:`assist`."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    return ours, theirs


def _be_assistant(line: socket.socket, other: socket.socket) -> None:
    """Assist in a process that was just forked, which ends here."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the job, whose end ends this
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        other.close()
        assist(line)
    finally:
        os._exit(0)


def assist(line: socket.socket) -> None:
    """Lowers what is asked for on the line to a job, until its other end closes."""
    target: Target | None = None
    while (data := _receive(line)) is not None:
        order = _Order.model_validate_json(data)
        if order.accelerator:
            target = Target(Accelerator.model_validate_json(order.accelerator))
            Capabilities.of(target).recall(order.capabilities.encode())
            continue
        assert target is not None
        entry, placed = _lowered(order, target)
        try:
            _send(line, entry)
            _send(line, placed)
        except OSError:  # the job is over
            return


def _lowered(order: _Order, target: Target) -> tuple[bytes, bytes]:
    """The region's entry, and its object with tensors placed; both empty where there are none."""
    try:
        lowered = lower_region(load_region(order.region), target, order.most)
    except CyclopsError:
        return b"", b""
    if lowered is None:
        return b"", b""
    texts = {stage: record.text() for stage, record in lowered.stages.items()}
    return dump_entry(texts, lowered.made), dump_object(placed_anywhere(lowered)) if order.placed else b""


def _send(line: socket.socket, data: bytes) -> None:
    line.sendall(len(data).to_bytes(_LENGTH, "little") + data)


def _receive(line: socket.socket) -> bytes | None:
    """The next frame; None if the other end is gone."""
    length = _exactly(line, _LENGTH)
    return None if length is None else _exactly(line, int.from_bytes(length, "little"))


def _exactly(line: socket.socket, count: int) -> bytes | None:
    data, at = bytearray(count), 0
    while at < count:
        try:
            read = line.recv_into(memoryview(data)[at:])
        except OSError:
            return None
        if not read:
            return None
        at += read
    return bytes(data)
