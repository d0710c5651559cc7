"""Uploads as they are given back."""

from fastapi.responses import StreamingResponse

from service.ranges import send_blob
from worker.uploads import Document, Uploads


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
