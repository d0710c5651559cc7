"""Work beside its thread: all of it is done in its order, and what fails is told."""

import pytest

from accel.util.pending_work import PendingWork


def test_all_is_done_one_after_the_other() -> None:
    done: list[int] = []
    with PendingWork[None]("test") as work:
        for number in range(50):
            work.add(lambda number=number: done.append(number))
        work.finish()
        assert done == list(range(50))


def test_a_piece_that_fails_is_told_once_more_are_added_or_all_is_waited_for() -> None:
    """A program whose instructions are missing would go on otherwise."""

    def fail() -> None:
        raise ValueError("no")

    with PendingWork[None]("test") as work:
        work.add(fail)
        with pytest.raises(ValueError, match="no"):
            work.finish()
    with PendingWork[None]("test") as work:
        for piece in (fail, lambda: None):
            work.add(piece)
        with pytest.raises(ValueError, match="no"):
            work.add(lambda: None)
