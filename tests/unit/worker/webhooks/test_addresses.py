"""Addresses that webhooks do not go to, however they are written."""

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.webhooks.targets import Destinations, is_public

REFUSED = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254"),
    *("169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.170", "192.0.2.1", "192.88.99.1"),
    *("192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250"),
    *("240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:a9fe:a9fe", "::127.0.0.1", "::8.8.8.8"),
    *("::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "100::1", "2001::1"),
    *("2001:2::1", "2001:db8::1", "2001:20::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1", "5f00::1"),
    *("4000::1", "fc00::1", "fd12::1", "fe80::1", "fec0::1", "ff02::1", "ff0e::1"),
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.32.0.1", "223.255.255.254"]
PUBLIC += ["2606:4700:4700::1111", "2a00:1450:4001:80e::200e", "2001:4860:4860::8888"]
# the special-purpose registries of IANA: what is not globally reachable, or leads elsewhere
SPECIAL_V4 = [
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.2.0/24"),
    *("192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_public_is_refused(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_what_is_public_is_not(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@settings(deadline=None)  # the first example builds the strategy
@given(st.ip_addresses(v=4))
def test_of_ipv4_all_is_public_but_what_is_registered(address: ipaddress.IPv4Address) -> None:
    special = any(address in ipaddress.IPv4Network(network) for network in SPECIAL_V4)
    if special or address not in ipaddress.IPv4Network("192.0.0.0/24"):  # some few in it are reachable
        assert is_public(address) == (not special)


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:0:0", "::", "::ffff:0:0:0", "64:ff9b::", "64:ff9b:1::"]))
def test_no_address_of_ipv4_passes_in_one_of_ipv6(inner: ipaddress.IPv4Address, prefix: str) -> None:
    assert not is_public(ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | int(inner)))


@given(st.ip_addresses(v=6))
def test_of_ipv6_only_what_is_assigned_for_it_is_public(address: ipaddress.IPv6Address) -> None:
    assert not is_public(address) or 0x2 <= int(address) >> 124 <= 0x3


@given(st.ip_addresses(v=4))
def test_6to4_and_teredo_are_never_public(inner: ipaddress.IPv4Address) -> None:
    assert not is_public(ipaddress.IPv6Address((0x2002 << 112) | int(inner) << 80 | 1))
    assert not is_public(ipaddress.IPv6Address((0x20010000 << 96) | (int(inner) ^ 0xFFFFFFFF)))


def test_what_the_operator_permits() -> None:
    networks = [ipaddress.ip_network("10.1.0.0/16"), ipaddress.ip_network("fd00:1::/64")]
    for text, permitted in [
        ("10.1.2.3", True),
        ("10.2.0.1", False),
        ("fd00:1::5", True),
        ("fd00:2::5", False),
        ("::ffff:10.1.2.3", False),
        ("8.8.8.8", True),
    ]:
        refusal = Destinations(networks, [range(443, 444)]).refusal(ipaddress.ip_address(text), 443)
        assert refusal == (None if permitted else "address-refused"), text
