"""Stored uploads: stored, listed, and sent."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import pydantic
from fastapi import Query, Response
from fastapi.responses import StreamingResponse

from service.http import conditional
from service.http.conditional import send_blob
from service.http.resources import Page
from worker.identity.ownership import Label
from worker.records.uploads import Document, StoredUpload, Uploads

Resource = TypeVar("Resource", bound=pydantic.BaseModel)
LabelOfUpload = Annotated[
    Label | None,
    Query(
        description="what to call it; a form may have it as a field. Without one, what you have called it before stays"
    ),
]


def store_upload(
    uploads: Uploads[Document], path: Path, document: Document, label: str | None
) -> StoredUpload[Document]:
    """Keep a file that was examined; gives it as its owner has it.

    Raises:
        BeingErasedError: it is being erased at this moment.
    """
    uploads.add(path, document)
    if label is not None:
        uploads.set_label(document.id, label)
    return uploads.as_kept(document)  # it may be erased already


def upload_resource(kept: StoredUpload[Document], form: type[Resource]) -> Resource:
    """An upload in a form that has its document's fields, or some of them, its label and its time."""
    return form(**kept.document.model_dump(), label=kept.label, created=kept.created)


def respond_with_page(
    uploads: Uploads[Document],
    cursor: str | None,
    limit: int,
    item: Callable[[StoredUpload[Document]], Resource],
    if_none_match: str | None,
) -> Response:
    """A page of the caller's uploads, newest first, or 304 if the client has it."""
    kept, following = uploads.page(cursor, limit)
    return conditional.respond_with_etag(
        Page(items=[item(each) for each in kept], next_cursor=following), if_none_match
    )


def send_upload(
    uploads: Uploads[Document], upload: Document, requested: str | None, media_type: str, suffix: str
) -> StreamingResponse:
    """Stream an upload's file, or one range of it; its id is its ETag, for it never changes.

    Args:
        uploads: where it is.
        upload: what was found in it.
        requested: the Range header.
        media_type: what it is.
        suffix: of the name under which a browser saves it.

    Raises:
        ProblemError: the range lies outside it.
    """
    return send_blob(
        upload.bytes,
        lambda begin, end: uploads.stream(upload.id, begin, end),
        media_type,
        requested,
        filename=f"{upload.id[:12]}.{suffix}",
        etag=f'"{upload.id}"',
    )
