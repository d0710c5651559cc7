"""Cursors of the listings."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query

Limit = Annotated[int, Query(ge=1, le=1000, description="most items on the page")]
_CURSOR = "`next_cursor` of the page before"
Cursor = Annotated[str | None, Query(max_length=100, description=_CURSOR)]
JobCursor = Annotated[str | None, Query(pattern="^[0-9a-f]{32}$", description=_CURSOR)]


def page_of_ids(ids: Sequence[str], cursor: str | None, limit: int) -> tuple[Sequence[str], str | None]:
    """The ids of a page, of a list sorted from high to low, and the next cursor.

    A cursor is the last id of the page before, so that a page does not move when jobs are added.
    """
    rest = [item for item in ids if item < cursor] if cursor else ids
    page = rest[:limit]
    return page, page[-1] if len(rest) > limit else None
