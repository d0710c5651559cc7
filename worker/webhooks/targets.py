"""The target of a webhook: its URL and secret, and the addresses and ports that the operator permits."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import pydantic
from pydantic import AfterValidator, ConfigDict, Field, SecretStr
from pydantic_core import PydanticCustomError

from worker.config.webhook_settings import Network, WebhookSettings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# what the standard library takes for global: multicast, and relays that lead to another address (RFC 7526)
_NOT_V4 = tuple(map(ipaddress.IPv4Network, ("224.0.0.0/4", "192.88.99.0/24")))
# all that is assigned for public use (RFC 4291, section 2.4). Outside of it are addresses with one of IPv4 in them:
# mapped, compatible, translated (::/8), and NAT64 (64:ff9b::/16)
_V6 = ipaddress.IPv6Network("2000::/3")
# 6to4 and Teredo hide an address of IPv4 too; the last is for documentation (RFC 9637)
_NOT_V6 = tuple(map(ipaddress.IPv6Network, ("2002::/16", "2001::/23", "3fff::/20")))


def is_public(address: Address) -> bool:
    """Returns whether the address is of a host in the public network, and does not embed another address."""
    if not address.is_global:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _NOT_V4)
    return address in _V6 and not any(address in network for network in _NOT_V6)


@dataclass(frozen=True)
class Destinations:
    """Permitted destinations: ``ports`` of public addresses, and all ports of addresses in ``networks``.

    An IPv4 address that is embedded in an IPv6 address counts as IPv6.
    """

    networks: Sequence[Network]
    ports: Sequence[range]

    @classmethod
    def of(cls, settings: WebhookSettings) -> "Destinations":
        """Returns the destinations that the settings permit."""
        return cls(settings.permitted_networks, settings.permitted_ports)

    def refusal(self, address: Address, port: int) -> Literal["address-refused", "port-refused"] | None:
        """Returns the reason to send nothing there, or None."""
        if any(address in network for network in self.networks):
            return None
        if not is_public(address):
            return "address-refused"
        return None if self.has_port(port) else "port-refused"

    def has_port(self, port: int) -> bool:
        """Returns whether the port is permitted for public addresses."""
        return any(port in ports for ports in self.ports)


_MOST = 2000
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_URL = re.compile(
    rf"(?i:https)://(?P<host>\[[0-9A-Fa-f:.]{{2,45}}\]|{_LABEL}(?:\.{_LABEL})*)(?::(?P<port>[0-9]{{1,5}}))?"
    r"(?P<target>[/?][A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=%]*)?"
)
_NUMERIC = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_PREFIX = "whsec_"
_FEWEST_BYTES, _MOST_BYTES = 24, 64  # of a secret, as Standard Webhooks has them


class WebhookTarget(NamedTuple):
    """An HTTPS URL in its parts.

    Attributes:
        host: a name in lower case, or an address without brackets.
        port: of TCP.
        path: what is asked for there, with the query.
        address: the host's, if it is one and no name.
    """

    host: str
    port: int
    path: str
    address: Address | None

    @property
    def authority(self) -> str:
        """The header ``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 443 else f"{host}:{self.port}"


def parse_url(url: str) -> WebhookTarget:
    """Returns the parts of a webhook's URL.

    The accepted URLs have one reading; those that another parser might read differently are rejected.

    Raises:
        ValueError: the URL is not accepted; the message says why.
    """
    if len(url) > _MOST:
        raise ValueError(f"is longer than {_MOST} characters")
    if "#" in url:
        raise ValueError("has a fragment")
    if "@" in url.partition("://")[2].split("/", 1)[0].split("?", 1)[0]:
        raise ValueError("has a user in it; what the receiver shall trust is the signature")
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError("must be https://HOST or https://HOST:PORT, and a path; international names as xn--...")
    host, port, path = match["host"].lower(), int(match["port"] or 443), match["target"] or "/"
    if not 0 < port < 1 << 16:
        raise ValueError("has a port that is none")
    if len(host) > 253:
        raise ValueError("has a name that is too long")
    address = _address(host)
    return WebhookTarget(str(address or host), port, path if path[0] == "/" else f"/{path}", address)


def _address(host: str) -> Address | None:
    """Returns the address of a host that is written as one; None for a name. ValueError if it is malformed."""
    try:
        if host.startswith("["):
            return ipaddress.IPv6Address(host[1:-1])
        if _NUMERIC.fullmatch(host.rpartition(".")[2]):  # the system would read 127.1, 0x7f.1 and 2130706433, too
            return ipaddress.IPv4Address(host)
    except ValueError:
        raise ValueError("has an address that is none") from None
    return None


def _checked_url(url: str) -> str:
    try:
        parse_url(url)
    except ValueError as error:
        raise PydanticCustomError("webhook_url", "the URL {reason}", {"reason": str(error)}) from None
    return url


def _checked_secret(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    try:
        size = len(base64.b64decode(text.removeprefix(_PREFIX), validate=True)) if text.startswith(_PREFIX) else 0
    except (binascii.Error, ValueError):
        size = 0
    if not _FEWEST_BYTES <= size <= _MOST_BYTES:
        form = f"{_PREFIX} and the Base64 of {_FEWEST_BYTES} to {_MOST_BYTES} random bytes"
        raise PydanticCustomError("webhook_secret", "must be {form}", {"form": form})
    return secret


class Webhook(pydantic.BaseModel):
    """Where to tell that the job has ended."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    url: Annotated[str, AfterValidator(_checked_url)] = Field(
        max_length=_MOST,
        description="HTTPS URL of a public host, without user and fragment",
        examples=["https://example.com/hooks/cyclops"],
    )
    secret: Annotated[SecretStr, AfterValidator(_checked_secret)] = Field(
        max_length=200,
        description=f"what the requests are signed with: `{_PREFIX}` and the Base64 of {_FEWEST_BYTES} to "
        f"{_MOST_BYTES} random bytes; no answer has it",
    )
