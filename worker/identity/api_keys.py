"""API keys, in the store under ``keys/``: each authenticates requests of one owner.

``keys/<id>.json`` is created when the key is made, and ``keys/<id>.revoked`` when it is revoked; neither ever changes.
An id is the beginning of the digest of its key, so that it cannot be looked up without the key: whether a key exists
shows in no answer and takes no other time.
"""

import hmac
import json
import re
from datetime import datetime

import pydantic
from pydantic import Field

from worker.identity import secret_tokens
from worker.storage.identifiers import utc_now
from worker.storage.object_store import Store

ID_PATTERN = "^[0-9a-f]{16}$"
OWNER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@+\-]{0,63}$"
_ID_DIGITS = 16
_FOLDER = "keys"


class Key(pydantic.BaseModel):
    """The record of a key, without the key itself."""

    id: str = Field(pattern=ID_PATTERN)
    name: str = Field(min_length=1, max_length=100, description="for people")
    owner: str = Field(pattern=OWNER_PATTERN, description="whose models and jobs it sees; several keys may share it")
    created: datetime
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class ApiKeys:
    """All keys of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, name: str, owner: str | None = None) -> tuple[Key, str]:
        """Creates a key; returns its record, and the key itself, which is not stored.

        Args:
            name: for people; names need not be unique.
            owner: the owner; by default the key's id.

        Raises:
            pydantic.ValidationError: the name or the owner is malformed.
        """
        text = secret_tokens.make_token(secret_tokens.KEY)
        digest = secret_tokens.token_digest(text)
        key_id = digest[:_ID_DIGITS]
        key = Key(id=key_id, name=name, owner=key_id if owner is None else owner, created=utc_now(), sha256=digest)
        if not self._store.create(_record(key_id), key.model_dump_json().encode()):
            raise RuntimeError(f"there is a key {key_id} already")  # once in 2^64
        return key, text

    def all(self) -> list[tuple[Key, bool]]:
        """Returns every key, and whether it is revoked, oldest first."""
        names = list(self._store.sizes(_FOLDER))
        revoked = {name for name in names if name.endswith(".revoked")}
        found = self._store.read_many([name for name in names if name.endswith(".json")])
        keys = [Key.model_validate_json(data) for data in found if data is not None]
        return sorted(((key, _revoked(key.id) in revoked) for key in keys), key=lambda item: item[0].created)

    def revoke(self, key_id: str) -> None:
        """Revokes a key; repeating it does nothing. Raises KeyError if no key has this id."""
        if not re.fullmatch(ID_PATTERN, key_id) or not self._store.exists(_record(key_id)):
            raise KeyError(key_id)
        self._store.create(_revoked(key_id), json.dumps({"revoked": utc_now().isoformat()}).encode())

    def find(self, text: str) -> Key | None:
        """Returns the record of a valid key; None if it is unknown or revoked."""
        if not secret_tokens.is_well_formed(text, secret_tokens.KEY):
            return None
        digest = secret_tokens.token_digest(text)
        key_id = digest[:_ID_DIGITS]
        record, revoked = self._store.read_many([_record(key_id), _revoked(key_id)])
        if record is None or revoked is not None:
            return None
        key = Key.model_validate_json(record)
        return key if hmac.compare_digest(key.sha256, digest) else None


def _record(key_id: str) -> str:
    return f"{_FOLDER}/{key_id}.json"


def _revoked(key_id: str) -> str:
    return f"{_FOLDER}/{key_id}.revoked"
