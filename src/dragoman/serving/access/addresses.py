"""Addresses of clients and of proxies."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from dragoman.errors import SettingsError, quoted


def client_of(host: str) -> str:
    """Return the client that has an address; of IPv6, the network of 64 bits, all of which one client has."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return f"host {host}"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return f"address {address.ipv4_mapped}"
        return f"network {ipaddress.ip_network((address, 64), strict=False)}"
    return f"address {address}"


def is_loopback(host: str) -> bool:
    """Return True for an address of this machine, such as "127.0.0.1" or "::ffff:127.0.0.1"."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def addresses_of_proxies(proxies: Sequence[str]) -> list[str]:
    """Return the addresses that proxies have as peers; a socket of IPv6 maps those of IPv4 into ::ffff:0:0/96.

    Args:
        proxies: addresses, or networks such as "10.0.0.0/8".

    Raises:
        SettingsError: if one is neither.
    """
    addresses = []
    for proxy in proxies:
        try:
            network = ipaddress.ip_network(proxy)
        except ValueError:
            raise SettingsError(
                f"--trusted-proxy {quoted(proxy)} is not an address: use one such as 127.0.0.1, or a network such as "
                "10.0.0.0/8"
            ) from None
        addresses.append(str(network))
        if isinstance(network, ipaddress.IPv4Network):
            addresses.append(f"::ffff:{network.network_address}/{96 + network.prefixlen}")
    return addresses
