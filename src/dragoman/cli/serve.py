"""dragoman serve"""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from tyro.conf import Positional, arg

from dragoman.cli.examples import Example
from dragoman.cli.options import Count, Flag, Number, OptionalFile
from dragoman.errors import SettingsError
from dragoman.printing import printable
from dragoman.serving.limits import Limits

if TYPE_CHECKING:
    from dragoman.serving.lines import Pair

# The packages of the extra that are imported.
NEEDED = (
    "httptools",
    "prometheus_client",
    "py3langid",
    "pydantic",
    "python_multipart",
    "sentencex",
    "starlette",
    "uvicorn",
)


@dataclass(frozen=True, kw_only=True)
class AddressOptions:
    """State where the server listens, and for whom."""

    host: Annotated[str, arg(metavar="ADDRESS")] = "127.0.0.1"
    """Address to listen on; 0.0.0.0 or :: for all, which lets other machines in."""
    port: Count = 5000
    """Port to listen on; 0 selects a free one."""
    public_host: Annotated[tuple[str, ...], arg(metavar="NAME")] = ()
    """Name by which clients call the server, beside localhost (several may be given)."""
    allow_origin: Annotated[tuple[str, ...], arg(metavar="ORIGIN")] = ()
    """Origin of pages of another server that may read the responses, such as https://example.org (CORS)."""
    trusted_proxy: Annotated[tuple[str, ...], arg(metavar="ADDRESS")] = ()
    """Address of a proxy, or its network, whose X-Forwarded-For gives the address of the client."""


@dataclass(frozen=True, kw_only=True)
class AccessOptions:
    """State who may use the server, and what it stores."""

    keys: OptionalFile = None
    """TOML file of API keys: [[keys]] with name and key (or sha256), and requests_per_minute, characters_per_minute,
    quota (characters in a month) if they are limited. Every request then needs a key."""
    data: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: ~/.local/state/dragoman)")] = None
    """Directory for glossaries, documents and the usage of keys."""
    suggestions: OptionalFile = None
    """File to which suggested translations are appended; by default none are accepted."""
    access_log: Flag = False
    """Print route, status and seconds of each request; what clients send is never printed."""


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """Limit what clients may use. Requests above a limit get status 408, 413, 429 or 503."""

    characters: Count = Limits.characters
    """Characters of the texts of a request."""
    texts: Count = Limits.texts
    """Texts of a request."""
    body_bytes: Count = Limits.body_bytes
    """Bytes of the body of a request."""
    document_bytes: Count = Limits.document_bytes
    """Bytes of the body of a request that uploads a document."""
    request_seconds: Number = Limits.request_seconds
    """Seconds in which a request must be answered."""
    body_seconds: Number = Limits.body_seconds
    """Seconds in which the header of a request must arrive, and again for its body."""
    requests: Count = Limits.requests
    """Requests that are answered at the same time."""
    queue: Count = Limits.queue
    """Requests that wait; further ones get status 503 at once."""
    requests_per_minute: Count = Limits.requests_per_minute
    """Requests of an address, or of a key, in any minute."""
    characters_per_minute: Count = Limits.characters_per_minute
    """Characters of an address, or of a key, in any minute."""
    alternatives: Count = Limits.alternatives
    """Alternatives of a translation."""

    def limits(self) -> Limits:
        """Return the limits.

        Raises:
            SettingsError: when a value is out of range.
        """
        return Limits(**{field.name: getattr(self, field.name) for field in fields(Limits)})


@dataclass(frozen=True, kw_only=True)
class Serve:
    """Serve translation models over HTTP, by the interfaces of LibreTranslate and DeepL and in a page."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Serve both directions on this machine", "dragoman serve models/en-de models/de-en"),
        Example(
            "Serve a network, for holders of a key",
            "dragoman serve models/mine=en-de --host 0.0.0.0 --port 8080 --keys keys.toml",
        ),
    )

    models: Annotated[Positional[tuple[str, ...]], arg(metavar="MODEL ...", help_behavior_hint="")]
    """Model directories, one for each language pair; MODEL=en-de states the languages of one."""
    workers: Count = 1
    """Processes that translate; they share the memory of the weights."""
    address: AddressOptions = AddressOptions()
    access: AccessOptions = AccessOptions()
    limit: LimitOptions = LimitOptions()

    def run(self) -> None:
        """Serve until SIGTERM or Ctrl-C."""
        with _held_back(signal.SIGHUP):
            self._serve()

    def _serve(self) -> None:
        check_installed()
        from dragoman.files import user_directory
        from dragoman.serving.interface_routes import interface_routes
        from dragoman.serving.running import ServerSettings, run_server
        from dragoman.serving.workers.pool import Pool
        from dragoman.serving.workers.served_models import find_models

        if not self.models:
            raise SettingsError("no model: give at least one model directory")
        settings = ServerSettings(
            host=self.address.host,
            port=self.address.port,
            limits=self.limit.limits(),
            data=user_directory("state") if self.access.data is None else self.access.data,
            keys=self.access.keys,
            suggestions=self.access.suggestions,
            public_hosts=self.address.public_host,
            origins=self.address.allow_origin,
            proxies=self.address.trusted_proxy,
        )
        models = find_models(self.models)
        if self.access.access_log:
            logging.getLogger("dragoman.serving").setLevel(logging.INFO)
        pool = Pool({pair: (path,) for pair, path in models.items()}, workers=self.workers)
        run_server(settings, pool, interface_routes, on_ready=_print_ready)


@contextmanager
def _held_back(number: signal.Signals) -> Iterator[None]:
    """Hold a signal back until a handler is installed and lets it through; otherwise it would end the process."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.sigtimedwait({number}, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def check_installed() -> None:
    """Check that the packages of the extra `serving` are installed.

    Raises:
        SettingsError: if one is missing.
    """
    from importlib.util import find_spec

    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise SettingsError(f"serving needs {missing[0]}, which is not installed: pip install 'dragoman[serving]'")


def _print_ready(url: str, pairs: Sequence[Pair]) -> None:
    languages = ", ".join(f"{source} to {target}" for source, target in pairs)
    print(f"{url}   {printable(languages)} (press Ctrl-C to stop)", flush=True)
