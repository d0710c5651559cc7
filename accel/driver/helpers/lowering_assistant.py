"""A second process of a job, which plans composites and lowers regions beside it.

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
from typing import Protocol

from pydantic import BaseModel

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.driver.helpers.plans_beside import ArrivingPlans, PlanOrder, plan_last_first
from accel.errors import CyclopsError
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.codegen.region_cache import LoweredBeside, dump_entry
from accel.lowering.codegen.region_object import dump_object
from accel.lowering.ir.function_attributes import load_region
from accel.lowering.pipeline import lower_region, placed_anywhere
from accel.util.helper_process import helper_process, receive_frame, send_frame

_ANY_NUMBER = 1 << 62


class _Order(BaseModel):
    """What the job asks for: regions and plans for an accelerator, which it gives before, with what is known of it.

    One that asks for nothing ends the planning.
    """

    accelerator: str = ""
    capabilities: str = ""
    region: str = ""
    most: int = 0
    placed: bool = False
    prints: bool = True
    plan: PlanOrder | None = None


class _Asked(Protocol):
    """What was asked for and comes on the line."""

    def receive(self, line: socket.socket) -> bool:
        """Takes its frames; returns False if there are no more."""

    def give_up(self) -> None:
        """Takes it that they will not come."""


class _AskedRegion:
    """A region that was asked for."""

    def __init__(self) -> None:
        self.answer: Future[LoweredBeside] = Future()

    def receive(self, line: socket.socket) -> bool:
        entry = receive_frame(line)
        placed = None if entry is None else receive_frame(line)
        if entry is None or placed is None:
            return False
        self.answer.set_result(LoweredBeside(entry or None, placed or None))
        return True

    def give_up(self) -> None:
        self.answer.set_result(LoweredBeside(gone=True))


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
        self._asked: deque[_Asked] = deque()
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
        asked = _AskedRegion()
        self._ask(target, _Order(region=region, most=most, placed=placed, prints=self.prints), asked)
        return asked.answer

    def plan(self, target: Target, order: PlanOrder) -> ArrivingPlans:
        """Begins to plan composites beside, until all are planned or something else is asked for."""
        arriving = ArrivingPlans()
        self._ask(target, _Order(plan=order), arriving)
        return arriving

    def end_planning(self) -> None:
        """Has no further composite planned."""
        with self._sending:
            self._send(_Order())

    def close(self) -> None:
        """Ends the process, which finishes the region that it is at."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        if self._reader is not None:
            self._reader.join()
        self._line.close()

    def _ask(self, target: Target, order: _Order, asked: _Asked) -> None:
        with self._sending:
            if self._reader is None:
                self._reader = threading.Thread(target=self._read, name="assistant", daemon=True)
                self._reader.start()
            if target is not self._target:
                known = Capabilities.of(target).dump().decode()
                self._send(_Order(accelerator=target.accelerator.model_dump_json(), capabilities=known))
                self._target = target
            self._asked.append(asked)
            self._send(order)
        if self._gone:
            self._give_up()

    def _send(self, order: _Order) -> None:
        with suppress(OSError):  # the reader finds that it is gone
            send_frame(self._line, order.model_dump_json(exclude_defaults=True).encode())

    def _read(self) -> None:
        """Give what comes to who asked first, whose answer it is: they are asked for one after the other."""
        while self._has_bytes() and self._asked and self._asked[0].receive(self._line):
            self._asked.popleft()
        self._gone = True
        self._give_up()

    def _has_bytes(self) -> bool:
        """Whether something comes; False once the other end is gone."""
        try:
            return bool(self._line.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def _give_up(self) -> None:
        """Answer whatever was asked, in either thread: whoever asks later finds that the process is gone."""
        with suppress(IndexError):
            while True:
                self._asked.popleft().give_up()


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
        try:
            if order.plan is not None:
                plan_last_first(line, order.plan, target)
            elif order.region:
                for frame in _lowered(order, target):
                    send_frame(line, frame)
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
