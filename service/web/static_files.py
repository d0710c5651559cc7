"""Static files under ``/static/``."""

import mimetypes
from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter, Response

from service.auth.route_policy import access
from service.http.problems import ProblemError

_FOLDER = Path(__file__).parent / "static"
_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "Cross-Origin-Resource-Policy": "same-origin"}
_FILES = {path.relative_to(_FOLDER).as_posix(): path for path in _FOLDER.rglob("*") if path.is_file()}
router = APIRouter(prefix="/static", include_in_schema=False)


def static_url(name: str) -> str:
    """Returns the address of a static file."""
    return f"/static/{quote(name)}"


@router.get("/{path:path}")
@access("open")
def get_static_file(path: str) -> Response:
    """A static file: script, style or picture of the pages."""
    if (found := _FILES.get(path)) is None:
        raise ProblemError("not-found", f"there is no static file {path!r}")
    return Response(found.read_bytes(), media_type=mimetypes.guess_type(path)[0], headers=_HEADERS)
