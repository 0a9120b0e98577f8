"""Decide which network addresses may be connected to: globally routable unicast only.

An allowlist: an address counts as public only if it lies in a block that is assigned for public use
and in no special-purpose block (IANA's registries); the tables of the running Python do not matter.
An IPv4 address inside an IPv6 address has to be public too.
"""

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from httpx2 import URL, AsyncClient, Request

Address = IPv4Address | IPv6Address

UNICAST_4 = [ip_network("0.0.0.0/1"), ip_network("128.0.0.0/2"), ip_network("192.0.0.0/3")]
"""Classes A, B and C: no multicast, nothing reserved."""
SPECIAL_4 = [
    ip_network(block)
    for block in (
        "0.0.0.0/8",  # this network: 0.0.0.0 connects to this machine
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT; some clouds have their metadata there
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local; most clouds have their metadata there
        "172.16.0.0/12",
        "192.0.0.0/24",  # IETF protocol assignments, DS-Lite
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays, deprecated
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
    )
]
UNICAST_6 = ip_network("2000::/3")
"""IANA's block for global unicast: no ULA, link-local, site-local, multicast or NAT64."""
SPECIAL_6 = [
    ip_network(block)
    for block in (
        "2001::/23",  # IETF protocol assignments: Teredo, benchmarking, ORCHID
        "2001:db8::/32",  # documentation
        "3ffe::/16",  # 6bone, returned
        "3fff::/20",  # documentation
    )
]
CARRIERS = {
    ip_network("::ffff:0:0/96"): 0,  # IPv4-mapped
    ip_network("64:ff9b::/96"): 0,  # NAT64
    ip_network("2002::/16"): 80,  # 6to4
}
"""IPv6 networks that embed an IPv4 address, with the number of bits that follow it."""
ISATAP = (0x00005EFE, 0x02005EFE)
"""The middle of an interface id that ends in an IPv4 address: `…:0:5efe:127.0.0.1`."""


class NotPublic(Exception):
    """A host name resolves to an address that may not be connected to."""


def is_public(address: Address) -> bool:
    """Return whether an address, and any IPv4 address embedded in it, is publicly routable.

    >>> is_public(ip_address("::ffff:0:127.0.0.1")), is_public(ip_address("2606:4700::1111"))
    (False, True)
    """
    if isinstance(address, IPv4Address):
        is_unicast = any(address in block for block in UNICAST_4)
        return is_unicast and not any(address in block for block in SPECIAL_4)
    if address.scope_id is not None:  # a zone names an interface of this machine
        return False
    for network, behind in CARRIERS.items():
        if address in network:
            return is_public(IPv4Address(int(address) >> behind & 0xFFFFFFFF))
    if int(address) >> 32 & 0xFFFFFFFF in ISATAP and not is_public(_last_32_bits(address)):
        return False
    return address in UNICAST_6 and not any(address in block for block in SPECIAL_6)


def is_loopback(address: Address) -> bool:
    """Return whether an address is loopback."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


async def resolve(host: str, port: int, allows_private: bool, allows_loopback: bool = False) -> str:
    """Look up a host once and return an address to connect to.

    Raise `NotPublic` if any of its addresses is not allowed: a name with a public and a private
    address could lead to either.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [ip_address(str(place[0])) for *_, place in found]
    # All addresses are checked, not just the one that is used: an attacker controls their order.
    for address in () if allows_private else addresses:
        if not is_public(address) and not (allows_loopback and is_loopback(address)):
            raise NotPublic(host)
    return str(addresses[0])


def pinned_request(
    client: "AsyncClient", method: str, place: "URL", address: str, **options: Any
) -> "Request":
    """Return a request that connects to `address`, which was checked before.

    The host name is not looked up again, so DNS rebinding cannot redirect the request. The `Host`
    header and the certificate are still those of the name.
    """
    own: dict[bytes, bytes] = options.pop("headers", {})
    is_named = any(name.lower() == b"host" for name in own)
    headers = own if is_named else {b"Host": place.netloc, **own}
    extensions = {"sni_hostname": place.raw_host.decode("ascii")}
    url = place.copy_with(host=address)
    return client.build_request(method, url, headers=headers, extensions=extensions, **options)


def _last_32_bits(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)
