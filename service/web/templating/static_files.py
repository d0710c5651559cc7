"""Static files under ``/static/``, by names that change with their contents, so that browsers keep them for good."""

import functools
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Response

from service.auth.route_policy import access
from service.http.problems import ProblemError

_FOLDER = Path(__file__).parents[1] / "static"
_BUILT = "dist"  # what Vite has built; its names have digests already
_MANIFEST = "manifest.json"
_DIGITS = 12
_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "Cross-Origin-Resource-Policy": "same-origin"}
# a worker obeys the policy of its own script, not that of the page: it asks this host alone
_SCRIPT_POLICY = {"Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'"}
router = APIRouter(prefix="/static", include_in_schema=False)


@dataclass(frozen=True)
class StaticFile:
    """A static file; ``path`` is its address under ``/static/``."""

    path: str
    media_type: str
    content: bytes


@functools.cache
def static_files() -> dict[str, StaticFile]:
    """Returns the static files by name. They do not change while the process lives."""
    found = {}
    for file in sorted(_FOLDER.rglob("*")):
        name = file.relative_to(_FOLDER).as_posix()
        if not file.is_file() or name == f"{_BUILT}/{_MANIFEST}":
            continue
        content = file.read_bytes()
        path = name
        if not name.startswith(f"{_BUILT}/"):
            path = f"{file.stem}.{hashlib.sha256(content).hexdigest()[:_DIGITS]}{file.suffix}"
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        found[name] = StaticFile(path, media_type, content)
    return found


def static_url(name: str) -> str:
    """Returns the address of a static file, which is another one when its content is; KeyError if there is none."""
    return f"/static/{static_files()[name].path}"


@functools.cache
def _by_path() -> dict[str, StaticFile]:
    return {file.path: file for file in static_files().values()}


@router.get("/{path:path}")
@access("open")
async def get_static_file(path: str) -> Response:
    """A static file: script, style or picture of the pages."""
    if (found := _by_path().get(path)) is None:
        raise ProblemError("not-found", f"there is no static file {path!r}")
    policy = _SCRIPT_POLICY if found.path.endswith(".js") else {}
    return Response(found.content, media_type=found.media_type, headers=_HEADERS | policy)
