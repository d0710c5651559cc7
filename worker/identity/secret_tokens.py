"""Secret tokens as text: a prefix for the kind, 256 random bits, and a checksum.

The checksum tells a typing error, or any similar text, from a real token without a look-up; a scanner that looks for
leaked secrets can do the same. It is CRC-32 of all before it, and protects nothing.

Only the SHA-256 of a secret is kept. A slow hash would guard a password, of which there are few; nobody guesses 256
bits, however quick the hash is.
"""

import hashlib
import re
import secrets
import string
import zlib

KEY = "cyclops_"
LINK = "cyclopslink_"
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SECRET = 43  # digits of 256 bits to the base of 62
_CHECK = 6  # digits of 32 bits
_BODY = re.compile(rf"[0-9A-Za-z]{{{_SECRET + _CHECK}}}", re.ASCII)


def make_token(prefix: str) -> str:
    """Returns a new secret; ``prefix`` is ``KEY`` or ``LINK``."""
    text = prefix + _number(secrets.randbits(256), _SECRET)
    return text + _checksum(text)


def is_well_formed(text: str, prefix: str) -> bool:
    """Returns whether the text has the form and checksum of :func:`make_token`."""
    body = text.removeprefix(prefix)
    if len(body) == len(text) or not _BODY.fullmatch(body):
        return False
    return _checksum(text[:-_CHECK]) == text[-_CHECK:]


def token_digest(text: str) -> str:
    """Returns the SHA-256 of a secret in hexadecimal, which is stored in its place."""
    return hashlib.sha256(text.encode()).hexdigest()


def _checksum(text: str) -> str:
    return _number(zlib.crc32(text.encode()), _CHECK)


def _number(value: int, length: int) -> str:
    digits = ""
    for _ in range(length):
        value, digit = divmod(value, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits
