"""Which addresses a follower may connect to: those of the public internet, unless private ones are allowed.

The name is resolved once for each connection, every address of the answer is judged, and the connection is made to one
that was judged: a name server cannot answer twice and lead elsewhere. An IPv6 address that stands for an IPv4 one
(mapped, 6to4, Teredo, NAT64) is judged by that one too.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class PrivateAddress(Exception):  # noqa: N818 - it is the address that is refused
    """A name that leads to an address which is not public."""

    def __init__(self, host: str, address: str) -> None:
        super().__init__(f"{host} is {address}, which is not an address of the public internet")
        self.host = host
        self.address = address


def is_public(text: str) -> bool:
    """Whether the address belongs to the public internet; a text that is no address does not."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return all(one.is_global and not one.is_multicast for one in (address, *_inside(address)))


def connect(host: str, port: int, *, allow_private: bool, timeout: float) -> socket.socket:
    """A connection to the host, at an address that was judged; PrivateAddress, or OSError when nothing answers."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if not allow_private:
        for *_, place in found:
            if not is_public(str(place[0])):
                raise PrivateAddress(host, str(place[0]))
    failure = OSError(f"{host} has no address")
    for family, kind, protocol, _, place in found:
        made = socket.socket(family, kind, protocol)
        made.settimeout(timeout)
        try:
            made.connect(place)
            # Headers and body go in two pieces, and the second must not wait until the first is acknowledged.
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            made.close()
            failure = error
        else:
            return made
    raise failure


def _inside(address: Address) -> list[Address]:
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found: list[Address | None] = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]
