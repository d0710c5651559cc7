"""Content negotiation: which of a resource's formats a request wants (RFC 9110, section 12.5.1)."""

import re
from collections.abc import Mapping

from service.http.problems import ProblemError

_QUALITY = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?")


def negotiate(formats: Mapping[str, str], requested: str | None, accept: str | None) -> str:
    """The format's name.

    Args:
        formats: media type of each format; the first is the default.
        requested: the query's format, which wins.
        accept: the Accept header.

    Raises:
        ProblemError: no format is acceptable.
    """
    if requested is not None:
        return requested
    ranges = _accepted(accept or "*/*")
    best = max(formats, key=lambda name: _preference(formats[name], ranges))
    if _preference(formats[best], ranges)[0] == 0:
        raise ProblemError(
            "not-acceptable", f"{accept}; there are: {', '.join(dict.fromkeys(formats.values()))}", field="Accept"
        )
    return best


def _accepted(accept: str) -> list[tuple[str, float]]:
    """Media ranges and their qualities, in the header's order; a quality that is no number is none."""
    found = []
    for part in accept.split(","):
        pattern, *parameters = (item.strip().lower() for item in part.split(";"))
        given = [parameter.removeprefix("q=") for parameter in parameters if parameter.startswith("q=")]
        quality = (float(given[0]) if _QUALITY.fullmatch(given[0]) else 0.0) if given else 1.0
        found.append((pattern, quality))
    return found


def _preference(media_type: str, ranges: list[tuple[str, float]]) -> tuple[float, int]:
    """How much a format is wanted: the quality that the most specific range gives it; of equals, the first named."""
    kind = media_type.partition("/")[0]
    for pattern in (media_type, f"{kind}/*", "*/*"):
        for place, (found, quality) in enumerate(ranges):
            if found == pattern:
                return quality, -place
    return 0.0, 0
