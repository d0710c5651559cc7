"""Which addresses and ports we send to: public addresses at few ports, and networks that the operator permits."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from worker.egress import Egress, Network

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# what the standard library takes for global: multicast, and relays that lead to another address (RFC 7526)
_NOT_V4 = tuple(map(ipaddress.IPv4Network, ("224.0.0.0/4", "192.88.99.0/24")))
# all that is assigned for public use (RFC 4291, section 2.4). Outside of it are addresses with one of IPv4 in them:
# mapped, compatible, translated (::/8), and NAT64 (64:ff9b::/16)
_V6 = ipaddress.IPv6Network("2000::/3")
# 6to4 and Teredo hide an address of IPv4 too; the last is for documentation (RFC 9637)
_NOT_V6 = tuple(map(ipaddress.IPv6Network, ("2002::/16", "2001::/23", "3fff::/20")))


def is_public(address: Address) -> bool:
    """Whether the address belongs to one host of the public network, and to no other by way of it."""
    if not address.is_global:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _NOT_V4)
    return address in _V6 and not any(address in network for network in _NOT_V6)


@dataclass(frozen=True)
class Destinations:
    """Where webhooks may go: to ``ports`` of public addresses, and to all of what is in ``networks``.

    An address of IPv4 in the clothes of IPv6 counts as what it is written as.
    """

    networks: Sequence[Network]
    ports: Sequence[range]

    @classmethod
    def of(cls, settings: Egress) -> "Destinations":
        """Those of the settings."""
        return cls(settings.permitted_networks, settings.permitted_ports)

    def refusal(self, address: Address, port: int) -> Literal["address-refused", "port-refused"] | None:
        """Why nothing is sent there, if that is so."""
        if any(address in network for network in self.networks):
            return None
        if not is_public(address):
            return "address-refused"
        return None if self.has_port(port) else "port-refused"

    def has_port(self, port: int) -> bool:
        """Whether the port is one of those of public addresses."""
        return any(port in ports for ports in self.ports)
