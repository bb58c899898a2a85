"""Addresses of clients and of proxies, and origins."""

import ipaddress
from pathlib import Path

import pytest

from dragoman.errors import SettingsError
from dragoman.serving.access.addresses import addresses_of_proxies, client_of, is_loopback
from dragoman.serving.limits import Limits
from dragoman.serving.running import ServerSettings


def settings(*, proxies: tuple[str, ...] = (), origins: tuple[str, ...] = ()) -> ServerSettings:
    return ServerSettings(host="::", port=0, limits=Limits(), data=Path("data"), proxies=proxies, origins=origins)


def test_proxies_are_found_behind_a_socket_of_ipv6() -> None:
    networks = [ipaddress.ip_network(each) for each in addresses_of_proxies(["127.0.0.1", "10.0.0.0/8", "2001:db8::1"])]
    for address in ("127.0.0.1", "::ffff:127.0.0.1", "10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1"):
        assert any(ipaddress.ip_address(address) in network for network in networks), address
    for address in ("127.0.0.2", "::ffff:127.0.0.2", "11.1.2.3", "::ffff:11.1.2.3", "::1", "2001:db8::2"):
        assert not any(ipaddress.ip_address(address) in network for network in networks), address


@pytest.mark.parametrize("proxy", ["nonsense!", "localhost", "*", "", "10.0.0.1/8", "127.0.0.1:80"])
def test_other_proxies_are_refused(proxy: str) -> None:
    with pytest.raises(SettingsError, match="is not an address"):
        settings(proxies=("127.0.0.1", proxy))


def test_origins() -> None:
    settings(origins=("*", "https://example.org", "http://localhost:8080", "http://[::1]:80", "chrome-extension://abc"))
    for origin in (
        "example.org",
        "example.org/",
        "https://example.org/",
        "https://Example.org",
        "https://",
        "null",
        "",
    ):
        with pytest.raises(SettingsError, match="is not an origin"):
            settings(origins=(origin,))


def test_clients() -> None:
    assert client_of("::ffff:192.0.2.1") == client_of("192.0.2.1") != client_of("192.0.2.2")
    assert client_of("2001:db8::1") == client_of("2001:db8::2%eth0") != client_of("2001:db8:0:1::1")
    assert all(map(is_loopback, ("127.0.0.5", "::1", "::ffff:127.0.0.1")))
    assert not any(map(is_loopback, ("192.0.2.1", "::ffff:192.0.2.1", "", "host")))
