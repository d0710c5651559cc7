"""Static files under ``/static/``, by names that change with their contents, so that browsers keep them for good."""

import functools
import hashlib
import json
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Response
from markupsafe import Markup

from service.auth.route_policy import access
from service.http.problems import ProblemError

_FOLDER = Path(__file__).parent / "static"
_BUILT = "dist"  # what Vite has built; its names have digests already
_MANIFEST = "manifest.json"
_DIGITS = 12
_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "Cross-Origin-Resource-Policy": "same-origin"}
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
def _manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_FOLDER / _BUILT / _MANIFEST).read_bytes())
    return found


@functools.cache
def island(name: str) -> Markup:
    """Returns the tags that load an island's script and styles, as Vite's manifest names them.

    Raises:
        KeyError: no island that was built has this name.
    """
    manifest = _manifest()
    entry = next((key for key, item in manifest.items() if item.get("isEntry") and item.get("name") == name), None)
    if entry is None:
        raise KeyError(name)
    styles = dict.fromkeys(style for chunk in _chunks(manifest, entry) for style in manifest[chunk].get("css", ()))
    tags = [Markup('<link rel="stylesheet" href="/static/dist/{}">').format(style) for style in styles]
    script = Markup('<script type="module" src="/static/dist/{}"></script>').format(manifest[entry]["file"])
    return Markup("\n").join([*tags, script])


def _chunks(manifest: dict[str, Any], entry: str) -> Iterator[str]:
    """Yields the entry and all chunks that it imports at once."""
    yield entry
    for imported in manifest[entry].get("imports", ()):
        yield from _chunks(manifest, imported)


@functools.cache
def _by_path() -> dict[str, StaticFile]:
    return {file.path: file for file in static_files().values()}


@router.get("/{path:path}")
@access("open")
async def get_static_file(path: str) -> Response:
    """A static file: script, style or picture of the pages."""
    if (found := _by_path().get(path)) is None:
        raise ProblemError("not-found", f"there is no static file {path!r}")
    return Response(found.content, media_type=found.media_type, headers=_HEADERS)
