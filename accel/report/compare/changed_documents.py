"""The changed documents of an accelerator that a model can be compiled for anew, each with what it changes."""

from typing import Any

import pydantic
from pydantic import Field

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import accelerator_id, canonical, check_accelerator
from accel.errors import InvalidAccelerator
from accel.isa.document_changes import changes_of
from accel.isa.family import DocumentChange, Family
from accel.isa.family_registry import family_of
from accel.isa.variations import complete
from accel.report.compare.comparison import differences
from accel.report.documents.report_documents import FieldDifference

_FOLLOWS = ("/instructions/", "/title")


class DescribedChange(pydantic.BaseModel):
    """A change of a document; or why there can be none."""

    name: str = Field(description="what a request calls it", examples=["memory-spad"])
    resource: str = Field(description="what the program is bound by, if it gains", examples=["the size of spad"])
    change: str = Field(description="what there would be of it", examples=["spad of 512 KiB"])
    fields: list[FieldDifference] = Field(description="of the document; none where it is refused")
    refused: str | None = Field(description="why no accelerator can have it; null: it can be compiled for")
    accelerator: str | None = Field(description="id that the changed document has once it is stored; null if refused")


class ChangedDocument(DescribedChange):
    """A change, and the document that has it; or why there can be none."""

    document: str | None = Field(None, description="the document, as JSON")


class ChangedDocuments(pydantic.BaseModel):
    """All changes of a document."""

    changes: list[ChangedDocument]


def changed_documents(accelerator: Accelerator) -> list[ChangedDocument]:
    """Returns the changes of a checked document, in the order in which its family names them."""
    family = family_of(accelerator)
    before = complete(accelerator, family)
    return [_changed(each, before, family) for each in changes_of(accelerator, family)]


def _changed(change: DocumentChange, before: Any, family: Family) -> ChangedDocument:
    told = {"name": change.name, "resource": change.resource, "change": change.change}
    try:
        # as if it had been uploaded: what a family made of a user's document is not trusted more than that
        made = Accelerator.model_validate(change.make().model_dump(mode="json"))
        check_accelerator(made)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        return ChangedDocument(**told, fields=[], refused=reason, accelerator=None)
    except InvalidAccelerator as error:
        return ChangedDocument(**told, fields=[], refused=error.detail, accelerator=None)
    # encodings and the title follow from what was changed
    fields = sorted(differences(before, complete(made, family)), key=lambda each: each.field.startswith(_FOLLOWS))
    text = canonical(made).decode()
    return ChangedDocument(**told, fields=fields, refused=None, accelerator=accelerator_id(made), document=text)
