"""The catalogue of problem types, to which the ``type`` of a problem document leads."""

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from service.http.problems import JOB_TYPES, RETIRED_TYPES, SERVICE_TYPES, ProblemError, accel_types

router = APIRouter(prefix="/problems", tags=["problems"], default_response_class=PlainTextResponse)


def problem_catalogue() -> dict[str, str]:
    """A sentence for every type of problem, by slug."""
    of_service = {slug: f"{title} (HTTP {status})" for slug, (status, title) in SERVICE_TYPES.items()}
    of_accel = {slug: f"{error.title} {(error.__doc__ or '').splitlines()[0]}" for slug, error in accel_types().items()}
    return dict(sorted((RETIRED_TYPES | of_service | JOB_TYPES | of_accel).items()))


@router.get("", include_in_schema=False)
def list_problems() -> str:
    """Every type."""
    return "".join(f"/problems/{slug}\n    {meaning}\n" for slug, meaning in problem_catalogue().items())


@router.get("/{slug}", include_in_schema=False)
def get_problem(slug: str) -> str:
    """One type."""
    meanings = problem_catalogue()
    if slug not in meanings:
        raise ProblemError("not-found", f"there is no type of problem {slug!r}")
    return f"{meanings[slug]}\n"
