"""Parts of keys in the store, identifiers and times."""

import hashlib
import secrets
import time
from datetime import UTC, datetime
from typing import Literal


def owner_digest(owner: str) -> str:
    """An owner: 64 hexadecimal digits."""
    return hashlib.sha256(owner.encode()).hexdigest()


def new_id() -> str:
    """An id that nobody else makes, 32 hexadecimal digits; ids sort by the times at which they were made."""
    return f"{time.time_ns() // 1000:014x}{secrets.token_hex(9)}"


def created_at(made: str) -> float:
    """When an id was made, in seconds since 1970; ValueError if it is none."""
    return int(made[:14], 16) / 1e6


def age(made: str) -> float:
    """Seconds since an id was made."""
    return time.time() - created_at(made)


ObjectKind = Literal["models", "tensors", "programs", "accelerators", "jobs"]


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)
