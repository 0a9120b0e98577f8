"""Which addresses of the network may be fetched from: those that anyone could reach."""

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

Address = IPv4Address | IPv6Address

CARRIES = {
    ip_network("64:ff9b::/96"): 0,
    ip_network("::/96"): 0,
    ip_network("2002::/16"): 80,
}
"""IPv6 networks whose addresses hold one of IPv4, and how many bits stand behind it."""


class NotPublic(Exception):
    """A name that leads into a private network."""


async def resolve(host: str, port: int, allows_private: bool) -> str:
    """The address of a host, looked up once; refuses one with any address that is not public."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    names = [str(place[0]).partition("%")[0] for *_, place in found]
    if not allows_private and not all(is_public(ip_address(name)) for name in names):
        raise NotPublic(host)
    return names[0]


def is_public(address: Address) -> bool:
    """Whether an address is one of the open network, and holds none that is not.

    >>> is_public(ip_address("::ffff:127.0.0.1"))
    False
    """
    inner = _held(address)
    return is_public(inner) if inner else address.is_global and not address.is_multicast


def _held(address: Address) -> IPv4Address | None:
    """The address of IPv4 inside one of IPv6."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped:
        return address.ipv4_mapped
    for network, behind in CARRIES.items():
        if address in network:
            return IPv4Address(int(address) >> behind & 0xFFFFFFFF)
    return None
