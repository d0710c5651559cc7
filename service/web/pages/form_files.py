"""What forms send: fields as texts, tags, and the document of an accelerator, as a file or typed."""

from collections.abc import Sequence
from pathlib import Path

from accel.accelerator.text.document_text import MAX_BYTES
from service.http.problems import ProblemError
from service.uploads.receive import ReceivedPart

DOCUMENT, DOCUMENT_FILE = "document", "document_file"  # names of fields
FORM_BYTES = 4 * MAX_BYTES  # of a form but for a model: the document, typed and sent, and fields
_FIELD_BYTES = 4000
_SHOWN_NAME = 100


def form_texts(parts: Sequence[ReceivedPart]) -> dict[str, str]:
    """Returns the fields of a form that are no files, by name.

    Raises:
        ProblemError: one is too long, or is not in UTF-8.
    """
    return {part.name: _text(part) for part in parts if part.filename is None}


def _text(part: ReceivedPart) -> str:
    name = part.name[:_SHOWN_NAME]
    most = MAX_BYTES if part.name == DOCUMENT else _FIELD_BYTES
    with part.path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ProblemError("too-large", f"{name} has more than {most} bytes", field=name)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ProblemError("invalid-request", f"{name} is not in UTF-8", field=name) from error
    if part.name == DOCUMENT:
        return text if text.strip() else ""  # in YAML the blanks before a line say something
    return text.strip()


def sent_document(parts: Sequence[ReceivedPart]) -> Path | None:
    """Returns the file with the document that a form sent, or into which it was typed; None if there is none."""
    for part in parts:
        chosen = part.name == DOCUMENT_FILE and part.filename
        if chosen or (part.name == DOCUMENT and part.filename is None and _text(part)):
            return part.path
    return None


def typed_tags(sent: Sequence[str]) -> list[str]:
    """Returns the tags of fields in which they stand with commas between them."""
    words = (" ".join(tag.split()) for text in sent for tag in text.split(","))
    return list(dict.fromkeys(word for word in words if word))
