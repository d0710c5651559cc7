"""Uploads in the store: storing, listing, describing and sending them."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import pydantic
from fastapi import Query, Response
from fastapi.responses import StreamingResponse

from service.http import conditional
from service.http.conditional import send_blob
from service.http.problems import refused_cursors
from service.http.resources import Page
from worker.identity.ownership import Label
from worker.records.listing.list_order import search_words
from worker.records.uploads import LATEST_UPLOAD, Document, StoredUpload, Uploads

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
    """Stores a file that was examined; returns it with its owner's label and time.

    Raises:
        BeingDeletedError: the upload is being deleted at this moment.
    """
    uploads.add(path, document)
    if label is not None:
        uploads.set_label(document.id, label)
    return uploads.as_stored(document)  # reading it again could fail: it may be deleted already


def upload_resource(stored: StoredUpload[Document], schema: type[Resource]) -> Resource:
    """Returns an upload in a schema that has its label, its time, and all or some of its document's fields."""
    return schema(**stored.document.model_dump(), label=stored.label, created=stored.created)


def respond_with_page(
    uploads: Uploads[Document],
    cursor: str | None,
    limit: int,
    item: Callable[[StoredUpload[Document]], Resource],
    if_none_match: str | None,
    sort: str = LATEST_UPLOAD,
    text: str = "",
) -> Response:
    """Returns a page of the caller's uploads, those that a search finds, or 304 if the client has it.

    Raises:
        ProblemError: the cursor is of another sort.
    """
    with refused_cursors():
        page, following = uploads.page(cursor, limit, sort, search_words(text))
    return conditional.respond_with_etag(
        Page(items=[item(each) for each in page], next_cursor=following), if_none_match
    )


def send_upload(
    uploads: Uploads[Document], upload: Document, requested: str | None, media_type: str, suffix: str
) -> StreamingResponse:
    """Streams an upload's file, or one range of it; its id is its ETag, as it never changes.

    Args:
        uploads: the uploads of its kind.
        upload: its document.
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
