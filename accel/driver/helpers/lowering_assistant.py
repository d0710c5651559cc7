"""A second process of a job, which lowers regions beside it.

Lowering is Python that drives TVM, and holds Python's lock: threads would take turns. The process is forked when TVM is
imported and the job has no threads yet, and waits for regions until the job ends. It gives back what the cache of
compiled functions keeps of a region, so that to the job a region from there is as one that was found.
"""

import socket
import threading
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
from accel.util.helper_process import helper_process, receive_frame, send_frame

_ANY_NUMBER = 1 << 62


class _Order(BaseModel):
    """What the job asks for: regions of an accelerator, which it gives before, with what is known of it."""

    accelerator: str = ""
    capabilities: str = ""
    region: str = ""
    most: int = 0
    placed: bool = False
    prints: bool = True


class LoweringAssistant:
    """The job's end of the line to the process.

    Args:
        line: to the process, which may be gone.

    Attributes:
        prints: whether entries have texts; what prints none is faster by a third.
    """

    def __init__(self, line: socket.socket) -> None:
        self.prints = True
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
            self._send(_Order(region=region, most=most, placed=placed, prints=self.prints))
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
            send_frame(self._line, order.model_dump_json(exclude_defaults=True).encode())

    def _read(self) -> None:
        while (entry := receive_frame(self._line)) is not None and (placed := receive_frame(self._line)) is not None:
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

    Call it with TVM imported and before the job starts threads.
    """
    with helper_process(assist) as line:
        if line is None:
            yield None
            return
        assistant = LoweringAssistant(line)
        try:
            yield assistant
        finally:
            assistant.close()


def assist(line: socket.socket) -> None:
    """Lowers what is asked for on the line to a job, until its other end closes."""
    target: Target | None = None
    while (data := receive_frame(line)) is not None:
        order = _Order.model_validate_json(data)
        if order.accelerator:
            target = Target(Accelerator.model_validate_json(order.accelerator))
            Capabilities.of(target).recall(order.capabilities.encode())
            continue
        assert target is not None
        entry, placed = _lowered(order, target)
        try:
            send_frame(line, entry)
            send_frame(line, placed)
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
    texts = {stage: record.text() for stage, record in lowered.stages.items()} if order.prints else {}
    return dump_entry(texts, lowered.made), dump_object(placed_anywhere(lowered)) if order.placed else b""
