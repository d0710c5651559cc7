"""Conditional requests (RFC 9110, section 13.1.2)."""


def matches(if_none_match: str | None, etag: str) -> bool:
    """Whether the client has what is at hand: one of the tags of its If-None-Match is ``etag``, or it is ``*``.

    The comparison is weak, as the header asks for.
    """
    if if_none_match is None:
        return False
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag in tags
