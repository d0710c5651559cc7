"""Which of a resource's formats a request wants (RFC 9110, section 12.5.1)."""

from collections.abc import Mapping

from service.problems import ProblemError


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
    ranked = sorted(_accepted(accept or "*/*"), key=lambda item: -item[1])
    for pattern, quality in ranked:
        for name, media_type in formats.items():
            if quality > 0 and _matches(pattern, media_type):
                return name
    raise ProblemError("not-acceptable", f"{accept}; there are: {', '.join(formats.values())}", field="Accept")


def _accepted(accept: str) -> list[tuple[str, float]]:
    found = []
    for part in accept.split(","):
        pattern, *parameters = (item.strip() for item in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    quality = float(parameter[2:])
                except ValueError:
                    quality = 0.0
        found.append((pattern.lower(), quality))
    return found


def _matches(pattern: str, media_type: str) -> bool:
    if pattern == "*/*":
        return True
    return pattern == media_type or (pattern.endswith("/*") and media_type.startswith(pattern[:-1]))
