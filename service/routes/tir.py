"""The intermediate representation after every stage, as text."""

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse

from service.context import RequestContext
from service.http.conditional import CONDITIONAL_RESPONSES, Conditions
from service.http.declarations import declare_content, declare_problems
from service.http.problems import ProblemError
from service.http.resources import TirIndex, TirStage
from service.jobs.job_id import JobId
from service.routes.artifacts import artifacts_of, send
from worker.records.job_artifacts import Artifacts

router = APIRouter(prefix="/v1/jobs/{id}/tir", tags=["results"])


def _dumps(artifacts: Artifacts) -> dict[str, tuple[str, int]]:
    """File name and bytes of each dump by its stage, in the order in which they ran; `05-flatten.txt` is `flatten`."""
    names = [(item.name, item.bytes) for item in artifacts.all("tir") if item.name.endswith(".txt")]
    return {name.removeprefix("tir/").removesuffix(".txt").partition("-")[2]: (name, size) for name, size in names}


@router.get("", summary="List the stages", responses=declare_problems("not-found"))
def list_tir(id: JobId, here: RequestContext) -> TirIndex:  # noqa: A002 - the API's name
    """The stages that were dumped, in the order in which they ran."""
    dumps = _dumps(artifacts_of(here, id, complete=False))
    home = f"/v1/jobs/{id}/tir"
    return TirIndex(
        stages=[TirStage(stage=stage, bytes=size, href=f"{home}/{stage}") for stage, (_, size) in dumps.items()]
    )


@router.get(
    "/{stage:path}",
    summary="The module after a stage",
    response_class=StreamingResponse,
    responses=declare_content("TVMScript", "text/plain") | CONDITIONAL_RESPONSES | declare_problems("not-found"),
)
def get_tir(id: JobId, stage: str, here: RequestContext, conditions: Conditions) -> Response:  # noqa: A002 - the API's name
    """TVMScript after a stage; `flatten/02-s_tir.CompactBufferAllocation` is after a pass within it."""
    artifacts = artifacts_of(here, id, complete=False)
    found = _dumps(artifacts).get(stage)
    if found is None:
        raise ProblemError("not-found", f"the job has dumped no stage {stage!r}", field="stage")
    return send(artifacts, found[0], conditions)
