"""Public addresses: a table of every special block, and properties over all addresses."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import hypothesis.strategies as st
import pytest
from hypothesis import assume, example, given

from turnlog.agent.workspace.network_addresses import CARRIERS, is_public

LOCAL = IPv4Address("127.0.0.1")
BLOCKS = """
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24
224.0.0.0/4 240.0.0.0/4 255.255.255.255/32
::/128 ::1/128 ::/96 ::ffff:0:0:0/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 200::/7 400::/6 800::/5
1000::/4 2001::/32 2001:1::/32 2001:2::/48 2001:3::/32 2001:10::/28 2001:20::/28 2001:30::/28
2001:db8::/32 3ffe::/16 3fff::/20 4000::/2 5f00::/16 8000::/1 fc00::/7 fe80::/10 fec0::/10 ff00::/8
""".split()
"""Blocks without a public address, first to last."""
PUBLIC = """
1.1.1.1 8.8.8.8 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 172.15.255.255
172.32.0.0 191.255.255.255 192.0.1.0 192.0.3.0 192.167.255.255 192.169.0.0 198.17.255.255
198.20.0.0 223.255.255.255 2001:200::1 2001:4860:4860::8888 2400::1 2606:4700::1111 2a00::1
::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1 2606:4700:0:1:0:5efe:808:808
""".split()
EMBEDDING: dict[str, Callable[[int], int]] = {
    "mapped": lambda inner: int(IPv6Address("::ffff:0:0")) | inner,
    "compatible": lambda inner: inner,
    "translated": lambda inner: int(IPv6Address("::ffff:0:0:0")) | inner,
    "NAT64": lambda inner: int(IPv6Address("64:ff9b::")) | inner,
    "local NAT64": lambda inner: int(IPv6Address("64:ff9b:1::")) | inner,
    "6to4": lambda inner: int(IPv6Address("2002::1")) | inner << 80,
    "Teredo": lambda inner: int(IPv6Address("2001::")) | inner ^ 0xFFFFFFFF,
    "ISATAP": lambda inner: int(IPv6Address("2606:4700::5efe:0:0")) | inner,
    "unique ISATAP": lambda inner: int(IPv6Address("2606:4700::200:5efe:0:0")) | inner,
    "link-local ISATAP": lambda inner: int(IPv6Address("fe80::5efe:0:0")) | inner,
}
NEVER = {"compatible", "translated", "local NAT64", "Teredo", "link-local ISATAP"}
EXTRA = [ip_network("192.0.0.0/24"), ip_network("192.88.99.0/24")]
"""Blocks of IPv4 that Python takes for global in part, and turnlog does not."""

addresses_4 = st.integers(0, 2**32 - 1).map(IPv4Address)
addresses_6 = st.integers(0, 2**128 - 1).map(IPv6Address)


@pytest.mark.parametrize("block", BLOCKS)
def test_no_address_of_a_special_block_is_public(block: str) -> None:
    network = ip_network(block)
    for address in (network[0], network[network.num_addresses // 2], network[-1]):
        assert not is_public(address), address


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize("address", ["fe80::1%eth0", "2606:4700::1111%eth0", "ff02::1%1"])
def test_an_address_with_a_zone_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@given(addresses_4)
def test_ipv4_agrees_with_python_but_for_a_few_blocks(address: IPv4Address) -> None:
    is_extra = any(address in block for block in EXTRA)
    expected = address.is_global and not address.is_multicast and not is_extra
    assert is_public(address) == expected


@given(addresses_6)
@example(IPv6Address("::ffff:0:7f00:1"))
def test_every_public_ipv6_address_is_global_unicast(address: IPv6Address) -> None:
    assume(not any(address in carrier for carrier in CARRIERS))
    if is_public(address):
        assert address.is_global
        assert not address.is_reserved
        assert address in ip_network("2000::/3")


@pytest.mark.parametrize("how", EMBEDDING)
@given(inner=addresses_4)
@example(inner=LOCAL)
@example(inner=IPv4Address("169.254.169.254"))
@example(inner=IPv4Address("8.8.8.8"))
def test_an_embedded_address_must_be_public_itself(how: str, inner: IPv4Address) -> None:
    outer = IPv6Address(EMBEDDING[how](int(inner)))
    assert is_public(outer) == (is_public(inner) and how not in NEVER)
