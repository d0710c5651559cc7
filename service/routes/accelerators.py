"""Accelerators: the presets, and documents that were uploaded."""

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from accel.accelerator.document import Accelerator
from accel.catalog import parse_accelerator
from service.context import Here
from service.documents import problems
from service.pages import Cursor, Limit
from service.problems import ProblemError
from service.schemas import AcceleratorSummary, Page

router = APIRouter(prefix="/v1/accelerators", tags=["accelerators"])
_BODY = {
    "requestBody": {
        "required": True,
        "description": "the ten keys of `vta_config.json`; or `vta_config` with a `variant`; or a whole document",
        "content": {
            "application/json": {
                "schema": {"type": "object"},
                "examples": {
                    "the ten keys": {
                        "value": {
                            "TARGET": "sim",
                            "HW_VER": "0.0.2",
                            "LOG_INP_WIDTH": 3,
                            "LOG_WGT_WIDTH": 3,
                            "LOG_ACC_WIDTH": 5,
                            "LOG_BATCH": 0,
                            "LOG_BLOCK": 4,
                            "LOG_UOP_BUFF_SIZE": 15,
                            "LOG_INP_BUFF_SIZE": 15,
                            "LOG_WGT_BUFF_SIZE": 18,
                            "LOG_ACC_BUFF_SIZE": 17,
                        }
                    }
                },
            }
        },
    }
}


@router.post(
    "",
    status_code=201,
    summary="Upload an accelerator",
    responses=problems("bad-request", "too-large", "unsupported-media-type", "invalid-request"),
    openapi_extra=_BODY,
)
async def post_accelerator(request: Request, response: Response, here: Here) -> AcceleratorSummary:
    """Check and keep an accelerator. Its id is the SHA-256 of its document; jobs name it by that.

    What cannot work is refused as `invalid-accelerator`; `field` is the key to mend, such as `LOG_ACC_BUFF_SIZE`.
    """
    media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media_type not in ("", "application/json", "application/octet-stream"):
        raise ProblemError("unsupported-media-type", f"{media_type}; send application/json", field="body")
    body = await request.body()
    if not body:
        raise ProblemError("invalid-request", "the body is empty", field="body")
    accelerator = await run_in_threadpool(parse_accelerator, body)
    digest = await run_in_threadpool(here.accelerators.add, accelerator)
    response.headers["Location"] = f"/v1/accelerators/{digest}"
    return AcceleratorSummary(id=digest, title=accelerator.title, family=accelerator.family)


@router.get("", summary="List the accelerators")
def list_accelerators(here: Here, limit: Limit = 100, cursor: Cursor = None) -> Page[AcceleratorSummary]:
    """The presets by name, then uploaded accelerators by id."""
    ids = _after(here.accelerators.ids(), cursor)
    page = ids[:limit]
    return Page(
        items=[AcceleratorSummary(id=name, title=here.accelerators.title(name), family="vta") for name in page],
        next_cursor=page[-1] if len(ids) > limit else None,
    )


def _after(ids: Sequence[str], cursor: str | None) -> Sequence[str]:
    """What follows the cursor in the list's order, which an upload meanwhile does not move."""
    if cursor is None:
        return ids
    return [name for name in ids if _rank(name) > _rank(cursor)]


def _rank(name: str) -> tuple[bool, str]:
    return len(name) == 64, name


@router.get("/{id}", summary="Describe an accelerator", responses=problems("not-found"))
def get_accelerator(id: str, here: Here) -> Accelerator:  # noqa: A002 - the API's name
    """The accelerator's document: memories, units, instructions, timing."""
    try:
        return here.accelerators.get(id)
    except KeyError:
        raise ProblemError("not-found", f"there is no accelerator {id!r}", field="id") from None
