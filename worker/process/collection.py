"""Python's garbage collector, left out while a process imports what it stays with."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Leaves Python's garbage collector out while a process imports the compiler, or the service.

    That makes several hundred thousand objects, nearly all of which stay; to look through them time and again takes a
    seventh of the time. They are not looked at afterwards either.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
