"""The socket on which a server listens."""

from __future__ import annotations

import socket

from dragoman.errors import SettingsError, reason_of

# Connections that wait to be accepted.
BACKLOG = 512


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address, which does not listen yet.

    Raises:
        SettingsError: if the address is unknown or in use, or the port is out of range.
    """
    if not 0 <= port < 1 << 16:
        # `getaddrinfo` takes the port modulo 65,536.
        raise SettingsError(f"cannot listen on port {port}: use a --port from 1 to 65535, or 0 for a free one")
    try:
        [family, kind, protocol, _, address], *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:
        raise _unusable(host, port, error) from error
    return listener


def listen(listener: socket.socket) -> None:
    """Accept connections.

    Raises:
        SettingsError: if another process listens on the address.
    """
    host, port = listener.getsockname()[:2]
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        raise _unusable(host, port, error) from error


def url_of(listener: socket.socket) -> str:
    """Return the URL of a server that listens on a socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _unusable(host: str, port: int, error: Exception) -> SettingsError:
    return SettingsError(f"cannot listen on port {port} of {host} ({reason_of(error)}): use another --port or --host")
