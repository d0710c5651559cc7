"""How threads take turns at Python's lock while one of them compiles and others compute."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_TURN = 3e-4  # seconds; Python's own are 5 ms


@contextmanager
def short_turns() -> Iterator[None]:
    """Within, a thread that wants Python's lock has it after 0.3 ms.

    What computes without the lock, in numpy, onnxruntime or a kernel, wants it back some thousand times in a job, and
    each time waits for as long as another thread's turn takes.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _TURN))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
