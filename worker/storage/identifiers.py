"""Identifiers, parts of store keys, and times."""

import hashlib
import secrets
import time
from datetime import UTC, datetime
from typing import Literal


def owner_digest(owner: str) -> str:
    """Returns the SHA-256 of an owner's name: 64 hexadecimal digits."""
    return hashlib.sha256(owner.encode()).hexdigest()


def new_id() -> str:
    """Returns a unique id of 32 hexadecimal digits; ids sort by creation time."""
    return f"{time.time_ns() // 1000:014x}{secrets.token_hex(9)}"


def created_at(made: str) -> float:
    """Returns an id's creation time in seconds since 1970; ValueError if it is malformed."""
    return int(made[:14], 16) / 1e6


def age(made: str) -> float:
    """Returns the seconds since an id's creation."""
    return time.time() - created_at(made)


ObjectKind = Literal["models", "tensors", "programs", "accelerators", "jobs"]


def utc_now() -> datetime:
    """Returns the time, in UTC."""
    return datetime.now(UTC)
