"""Which other sites' pages may ask (CORS)."""

from collections.abc import Sequence

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

_SENT = (
    *("Authorization", "Content-Type", "Range", "If-None-Match", "If-Range"),
    *("Idempotency-Key", "Last-Event-ID", "Prefer", "X-Request-Id", "traceparent", "tracestate"),
)
# what scripts need beyond what they always see: all that we send and browsers do not keep for themselves
_SHOWN = (
    *("Location", "ETag", "Retry-After", "Content-Range", "Accept-Ranges", "Content-Disposition"),
    *("RateLimit", "RateLimit-Policy", "WWW-Authenticate", "Preference-Applied", "Idempotent-Replayed"),
    *("X-Request-Id", "Allow", "Accept-Encoding"),
)


def allow_origins(app: FastAPI, origins: Sequence[str]) -> None:
    """Let pages of these origins ask. Keys are sent by scripts, not by browsers: there are no credentials to allow."""
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=_SENT,
            expose_headers=_SHOWN,
            max_age=600,
        )
