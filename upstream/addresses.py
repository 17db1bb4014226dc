"""Names that others chose are resolved to addresses of the public network alone, at the moment of the connection."""

import ipaddress
import socket
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


class AddressRefused(OSError):
    """A name leads to no address of the public network."""


class PublicResolver(AbstractResolver):
    """What is checked is what is connected to: there is no second look-up that could answer otherwise."""

    def __init__(self) -> None:
        self._inner = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises AddressRefused also when only one of several is not public: none of such a name is believed."""
        found = await self._inner.resolve(host, port, family)
        if not all(is_public(each["host"]) for each in found):
            raise AddressRefused("a link leads to an address that is not public")
        return found

    async def close(self) -> None:
        await self._inner.close()


def is_public(address: str) -> bool:
    """Whether an address, or the IPv4 address it carries within, is one of the public network."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        within = ip.ipv4_mapped or ip.sixtofour or (ip.teredo or (None, None))[1]
        if ip in _NAT64:
            within = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if within is not None:
            return is_public(str(within))
    return ip.is_global and not ip.is_multicast
