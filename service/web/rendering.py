"""Rendering of pages: the templates' environment, its filters, and the response."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from service.web.bundle import Bundle
from service.web.static_files import static_url


def count(number: float) -> str:
    """Returns an integer with its thousands set apart: ``1,234,567``."""
    return f"{number:,.0f}"


def percent(share: float) -> str:
    """Returns a share as a percentage: ``12.5 %``; one that rounds to nothing and is something as ``< 0.1 %``."""
    return "< 0.1 %" if 0 < share < 0.0005 else f"{share:.1%}".replace("%", "\N{NO-BREAK SPACE}%")


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update({"count": count, "percent": percent})
    environment.globals.update({"static": static_url, "island": Bundle.read().island})
    return environment


_ENVIRONMENT = _environment()


def render(
    request: Request, template: str, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any
) -> Response:
    """Returns a page."""
    share = request.query_params.get("share")

    def link(path: str, **query: object) -> str:
        given = {name: value for name, value in {**query, "share": share}.items() if value is not None}
        return f"{path}?{urlencode(given)}" if given else path

    text = _ENVIRONMENT.get_template(template).render(link=link, **values)
    return HTMLResponse(text, status, {"Cache-Control": "private, no-cache", **(headers or {})})
