"""The intermediate representation after every stage, as text."""

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from service.context import Here
from service.documents import content, problems
from service.problems import ProblemError
from service.routes.artifacts import artifacts_of, send
from service.schemas import TirIndex, TirStage
from worker.artifacts import Artifacts

router = APIRouter(prefix="/v1/jobs/{id}/tir", tags=["results"])


def _stages(artifacts: Artifacts) -> dict[str, int]:
    """Bytes of each dump, by its name without folder and ending."""
    return {
        item.name.removeprefix("tir/").removesuffix(".txt"): item.bytes
        for item in artifacts.all("tir")
        if item.name.endswith(".txt")
    }


@router.get("", summary="List the stages", responses=problems("not-found"))
def list_tir(id: str, here: Here) -> TirIndex:  # noqa: A002 - the API's name
    """The stages that were dumped, in the order in which they ran."""
    stages = _stages(artifacts_of(here, id, complete=False))
    home = f"/v1/jobs/{id}/tir"
    return TirIndex(stages=[TirStage(stage=name, bytes=size, href=f"{home}/{name}") for name, size in stages.items()])


@router.get(
    "/{stage:path}",
    summary="The module after a stage",
    response_class=StreamingResponse,
    responses=content("TVMScript", "text/plain") | problems("not-found"),
)
def get_tir(id: str, stage: str, here: Here) -> StreamingResponse:  # noqa: A002 - the API's name
    """TVMScript after a stage, or a pass in it. `flatten` finds `05-flatten`."""
    artifacts = artifacts_of(here, id, complete=False)
    for name in _stages(artifacts):
        if stage in {name, name.partition("-")[2]}:
            return send(artifacts, f"tir/{name}.txt")
    raise ProblemError("not-found", f"the job has dumped no stage {stage!r}", field="stage")
