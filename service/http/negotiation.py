"""Content negotiation (RFC 9110, 12.4): qualities in Accept headers, and which of a resource's formats is wanted."""

import re
from collections.abc import Mapping

from service.http.problems import ProblemError

_QUALITY = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?")


def negotiate(formats: Mapping[str, str], requested: str | None, accept: str | None) -> str:
    """Returns the name of the format that a request wants.

    Args:
        formats: media type of each format; the first is the default.
        requested: the query's format, which wins.
        accept: the Accept header.

    Raises:
        ProblemError: no format is acceptable.
    """
    if requested is not None:
        return requested
    ranges = qualities(accept or "*/*")
    best = max(formats, key=lambda name: _preference(formats[name], ranges))
    if _preference(formats[best], ranges)[0] == 0:
        raise ProblemError(
            "not-acceptable", f"{accept}; there are: {', '.join(dict.fromkeys(formats.values()))}", field="Accept"
        )
    return best


def qualities(header: str) -> list[tuple[str, float]]:
    """Returns what an Accept header names and the quality of each, in the header's order; a malformed quality is 0."""
    found = []
    for part in header.split(","):
        name, *parameters = (item.strip().lower() for item in part.split(";"))
        given = next((item[2:].strip() for item in parameters if item.startswith("q=")), "1")
        found.append((name, float(given) if _QUALITY.fullmatch(given) else 0.0))
    return found


def _preference(media_type: str, ranges: list[tuple[str, float]]) -> tuple[float, int]:
    """Returns a sort key: the quality by the most specific range that matches; of equals, the first named wins."""
    kind = media_type.partition("/")[0]
    for pattern in (media_type, f"{kind}/*", "*/*"):
        for place, (found, quality) in enumerate(ranges):
            if found == pattern:
                return quality, -place
    return 0.0, 0
