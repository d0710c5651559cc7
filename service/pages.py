"""Cursors of the listings."""

from typing import Annotated

from fastapi import Query

Limit = Annotated[int, Query(ge=1, le=1000, description="most items on the page")]
_CURSOR = "`next_cursor` of the page before"
Cursor = Annotated[str | None, Query(max_length=100, description=_CURSOR)]
UploadCursor = Annotated[str | None, Query(pattern="^[0-9a-f]{78}$", description=_CURSOR)]
JobCursor = Annotated[str | None, Query(pattern="^[0-9a-f]{32}$", description=_CURSOR)]
