"""Which addresses we send to: public ones, and those that the operator permits."""

import ipaddress
from collections.abc import Sequence

from worker.egress import Network

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


def is_permitted(address: Address, networks: Sequence[Network]) -> bool:
    """Whether webhooks may go there: it is public, or in one of the ``networks``.

    An address of IPv4 in the clothes of IPv6 counts as what it is written as.
    """
    return is_public(address) or any(address in network for network in networks)
