"""Accelerators derived from others: a few keys of a configuration set, and everything that follows."""

from typing import Annotated, Any

import pydantic
from fastapi import APIRouter, Body, Query, Response
from pydantic import ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from accel.catalog.derive_accelerator import MOST_KEYS
from accel.catalog.load_accelerator import accelerator_id, canonical
from service.auth.caller import CurrentOwner
from service.auth.route_policy import access
from service.context import RequestUploads
from service.http.declarations import declare_document, declare_problems
from service.http.json_bodies import JsonRoute
from service.http.problems import ProblemError
from service.http.resources import AcceleratorSummary
from service.routes.accelerators import find_accelerator

router = APIRouter(prefix="/v1/accelerators/{id}/derive", tags=["accelerators"], route_class=JsonRoute)
_MAX_BODY = 1 << 16  # bytes
Key = Annotated[str, Field(min_length=1, max_length=100)]


class DerivationRequest(pydantic.BaseModel):
    """What to derive."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    keys: Annotated[
        dict[Key, Any],
        Field(
            alias="set",
            min_length=1,
            max_length=MOST_KEYS,
            description="values by key of its configuration: of a Gemmini its `parameters`, of a VTA the keys of "
            "`vta_config.json` and of `variant`; a key within an object is `object.key`",
            examples=[{"dim": 8}],
        ),
    ]
    name: Annotated[
        str | None, Field(max_length=64, description="of the new document; null: the old one, with what was set")
    ] = None


@router.post(
    "",
    status_code=201,
    summary="Derive an accelerator",
    responses=declare_document("with `dry_run`: it can be used, and would have this id", AcceleratorSummary)
    | declare_problems(
        "bad-request",
        "conflict",
        "not-found",
        "too-large",
        "invalid-request",
        "inspection-failed",
        "busy",
        "disk-full",
    ),
)
@access("key", rate="uploads", max_body=lambda _settings: _MAX_BODY)
async def post_derivation(
    id: str,  # noqa: A002 - the API's name
    response: Response,
    uploads: RequestUploads,
    owner: CurrentOwner,
    request: Annotated[DerivationRequest | None, Body()] = None,
    dry_run: Annotated[bool, Query(description="answer 200 if there can be one, and keep nothing")] = False,
) -> AcceleratorSummary:
    """Keep the document of another configuration: memories, encodings and times follow from the keys that are set.

    A preset or an upload is derived from that follows from a configuration still; one whose instructions were changed
    by hand does not, nor does one of the family `explicit`, whose document says all itself. `field` is the key to mend,
    such as `set.dim`.
    """
    accelerator = await run_in_threadpool(find_accelerator, id, uploads)
    if request is None:  # told to those alone who have the accelerator
        raise ProblemError("invalid-request", "body: Field required", field="body")
    derived = await uploads.derive_document(accelerator, request.keys, request.name, owner)
    name, title = accelerator_id(derived), derived.title
    if dry_run:
        response.status_code = 200
        return AcceleratorSummary(id=name, title=title, family=derived.family, label=None)
    text = canonical(derived).decode()
    kept = await uploads.store_document(derived, text, owner)
    response.headers["Location"] = f"/v1/accelerators/{kept}"
    [label] = await run_in_threadpool(uploads.accelerators.labels, [kept])
    return AcceleratorSummary(id=kept, title=title, family=derived.family, label=label)
