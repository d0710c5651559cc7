"""Accelerators: the presets."""

from fastapi import APIRouter

from accel.accelerator.document import Accelerator
from accel.catalog import load_accelerator, preset_names
from service.documents import problems
from service.pages import Cursor, Limit
from service.problems import ProblemError
from service.schemas import AcceleratorSummary, Page

router = APIRouter(prefix="/v1/accelerators", tags=["accelerators"])


@router.get("", summary="List the accelerators")
def list_accelerators(limit: Limit = 100, cursor: Cursor = None) -> Page[AcceleratorSummary]:
    """The presets by id."""
    names = [name for name in sorted(preset_names()) if cursor is None or name > cursor]
    documents = {name: load_accelerator(name) for name in names[:limit]}
    return Page(
        items=[AcceleratorSummary(id=name, title=d.title, family=d.family) for name, d in documents.items()],
        next_cursor=names[limit - 1] if len(names) > limit else None,
    )


@router.get("/{id}", summary="Describe an accelerator", responses=problems("not-found"))
def get_accelerator(id: str) -> Accelerator:  # noqa: A002 - the API's name
    """The accelerator's document: memories, units, instructions, timing."""
    if id not in preset_names():
        raise ProblemError("not-found", f"there is no accelerator {id!r}", field="id")
    return load_accelerator(id)
