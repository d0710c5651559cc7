"""Actors over one store, and a schedule that says at each step who goes on: any order of their requests can be had."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

from worker.storage.object_store import Store


class Actor:
    """A thread that stops before every request to the store."""

    def __init__(self, store: Store, act: Callable[[Store], None]) -> None:
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.finished = False
        self.error: BaseException | None = None
        stepped = _Stepped(store, self._pause)
        self._thread = threading.Thread(target=self._run, args=(act, stepped), daemon=True)
        self._thread.start()
        self._stopped.acquire()

    def _run(self, act: Callable[[Store], None], store: Any) -> None:
        try:
            self._pause()
            act(store)
        except BaseException as error:  # noqa: BLE001 - for the test to see
            self.error = error
        self.finished = True
        self._stopped.release()

    def _pause(self) -> None:
        self._stopped.release()
        self._go.acquire()

    def step(self) -> None:
        """Do the next request, up to the one after it."""
        self._go.release()
        self._stopped.acquire()


class _Stepped:
    def __init__(self, store: Store, pause: Callable[[], None]) -> None:
        self._store, self._pause_ = store, pause

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def paused(*args: Any, **options: Any) -> Any:
            self._pause_()
            found = method(*args, **options)
            return iter(list(found)) if isinstance(found, Iterator) else found

        return paused


def run_stepwise(store: Store, actors: list[Callable[[Store], None]], schedule: Iterator[int]) -> list[Actor]:
    """Run them to their ends, and give them back; each number of ``schedule`` is one of those that have not ended."""
    running = made = [Actor(store, act) for act in actors]
    while running:
        running[next(schedule) % len(running)].step()
        running = [actor for actor in running if not actor.finished]
    for actor in made:
        if actor.error is not None:
            raise actor.error
    return made
