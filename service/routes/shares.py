"""Share links: single jobs and uploads for readers without a key."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter

from accel.catalog.load_accelerator import preset_names
from service.auth.caller import CurrentOwner
from service.auth.route_policy import access
from service.context import Context, RequestContext
from service.http.declarations import declare_problems
from service.http.problems import ProblemError
from service.http.resources import Share
from service.jobs.job_id import JobId
from worker.identity.share_links import ShareTarget
from worker.storage.identifiers import ObjectKind

router = APIRouter(prefix="/v1")
# what a link opens beside the thing itself
_PARTS: dict[ObjectKind, tuple[str, ...]] = {
    "jobs": ("report", "outputs", "trace", "timeline", "tir", "artifacts"),
    "models": ("content",),
    "programs": ("content",),
    "tensors": ("content",),
    "accelerators": (),
}


def _post(kind: ObjectKind) -> Callable[..., Share]:
    @access("key")
    def post(id: _id_parameter(kind), context: RequestContext, owner: CurrentOwner) -> Share:  # type: ignore[valid-type]  # noqa: A002
        """Make a link with which anybody may read this and what lies under its address, and nothing else.

        It is shown this once. Every address under this one takes its `share=...`, and programs may send its token as
        they would send a key. Where no keys are needed all can be read without it.
        """
        token = context.access.shares.add(_shared_thing(kind, id, context), owner)
        home = f"/v1/{kind}/{id}"
        links = {"self": home} | {part: f"{home}/{part}" for part in _PARTS[kind]}
        return Share(token=token, links={name: f"{path}?share={token}" for name, path in links.items()})

    return post


def _delete(kind: ObjectKind) -> Callable[..., None]:
    @access("key")
    def delete(id: _id_parameter(kind), context: RequestContext, owner: CurrentOwner) -> None:  # type: ignore[valid-type]  # noqa: A002
        """Revoke every link to this that its owner made, at once; without any it does nothing."""
        context.access.shares.revoke(_shared_thing(kind, id, context), owner)

    return delete


def _id_parameter(kind: ObjectKind) -> Any:
    """Returns the type of the parameter that is the id."""
    return JobId if kind == "jobs" else str


def _shared_thing(kind: ObjectKind, name: str, context: Context) -> ShareTarget:
    """Returns the target of a link.

    Raises:
        ProblemError: there is no such thing, or it is everybody's.
    """
    if kind == "accelerators" and name in preset_names():
        raise ProblemError("conflict", f"{name} comes with Cyclops: who may use the service has it", field="id")
    context.require_visible(kind, name)
    return ShareTarget(kind, name)


for _kind in _PARTS:
    _path, _slugs = f"/{_kind}/{{id}}/share", ("not-found", *(["conflict"] if _kind == "accelerators" else []))
    router.post(
        _path, name=f"post_{_kind}_share", status_code=201, summary="Share by a link", tags=[_kind],
        responses=declare_problems(*_slugs),
    )(_post(_kind))  # fmt: skip
    router.delete(
        _path, name=f"delete_{_kind}_share", status_code=204, summary="Revoke the links", tags=[_kind],
        responses=declare_problems(*_slugs),
    )(_delete(_kind))  # fmt: skip
