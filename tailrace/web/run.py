"""``tailrace web``: the collector and the service, until the stop is set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.web.collector import Collector
from tailrace.web.daemons import DaemonAddress, address_of
from tailrace.web.details import Details
from tailrace.web.model import Model
from tailrace.web.pages.pipelines import Pipelines
from tailrace.web.parts import PartsReader
from tailrace.web.site import Site
from tailrace_schemas.topics.topic_names import database_path
from tailrace_service.http.access import Address, is_loopback, read_token
from tailrace_service.http.service import HttpService
from tailrace_service.http.tls import read_tls

if TYPE_CHECKING:
    from tailrace.settings.settings import Settings


class WebRefused(Exception):
    """The page cannot be served as it was asked for; says what would be right."""


@dataclass(frozen=True, slots=True)
class WebOptions:
    """How the page is served.

    Attributes:
        host: address that it listens on.
        port: 0 picks a free one.
        token_file: holds the token that every request needs; required unless the address is a
            loopback one.
        certificate: PEM, with its chain; the page is then served with TLS.
        key: its key, if in a file of its own.
        every_s: seconds between two looks at all parts.
        publisher_urls: where the publishers' endpoints are; default: as their options say.
        sink_url: the same of the sink.
    """

    host: str = "127.0.0.1"
    port: int = 0
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    every_s: float = 2.0
    publisher_urls: tuple[str, ...] = ()
    sink_url: str | None = None


@contextmanager
def serving(settings: Settings, options: WebOptions) -> Iterator[str]:
    """The page while the block runs; gives its address.

    Raises:
        WebRefused: it cannot be served so.
        SettingsError: the configuration is not usable.
    """
    if options.token_file is None and not is_loopback(options.host):
        raise WebRefused(
            f"{options.host} is reached from other machines: give --token-file, a file whose first"
            " line is the token"
        )
    try:
        token = read_token(options.token_file)
    except ValueError as error:
        raise WebRefused(f"--token-file {error}") from error
    try:
        tls = read_tls(options.certificate, options.key)
    except ValueError as error:
        raise WebRefused(f"--certificate, --key: {error}") from error
    address = Address(options.port, options.host, token, tls)
    several = settings.databases
    with ExitStack() as stack:
        sites = {
            name: stack.enter_context(_site(each, options, "../../" if several else "./"))
            for name, each in (several or {"": settings}).items()
        }
        routes = Pipelines(sites).routes() if several else sites[""].routes()
        try:
            service = stack.enter_context(HttpService(address, routes))
        except OSError as error:
            raise WebRefused(
                f"{options.host} port {options.port}: {error.strerror}; name an address of this"
                " machine and a free port"
            ) from error
        shown = f"[{options.host}]" if ":" in options.host else options.host
        yield f"{address.scheme}://{shown}:{service.port}/"


@contextmanager
def _site(settings: Settings, options: WebOptions, home: str) -> Iterator[Site]:
    """The pages of one pipeline, with the collector that looks for them."""
    own = publisher_of(settings)
    given = [_address(url, own, settings.name) for url in options.publisher_urls or (None,)]
    publishers = [address for address in given if address is not None]
    sink = None
    if settings.has_sink:
        import deltalake  # noqa: F401 - where it is missing, the command says which extra has it

        sink = _address(options.sink_url, address_of(settings.sink()))
    collector = Collector(settings, publishers, sink, options.every_s)
    site = Site(settings, collector, Details(settings), home)
    collector.start()
    try:
        yield site
    finally:
        collector.close()
        site.close()


def look_once(settings: Settings) -> Model:
    """Ask all parts of a pipeline now, as its configuration says where they answer.

    Raises:
        SettingsError: the configuration is not usable.
    """
    publisher = publisher_of(settings)
    sink = address_of(settings.sink()) if settings.has_sink else None
    return PartsReader(settings, [] if publisher is None else [publisher], sink).read()


def publisher_of(settings: Settings) -> DaemonAddress | None:
    """Where the publisher of a database answers; None if its options do not say.

    Args:
        settings: of one database, which may be one of several of the publisher.
    """
    found = address_of(settings.publisher())
    if found is None or not settings.name:
        return found
    return replace(found, url=f"{found.url}{database_path(settings.name)}")


def _address(
    url: str | None, configured: DaemonAddress | None, database: str = ""
) -> DaemonAddress | None:
    """Where a daemon answers.

    Args:
        url: as it was given; None: as the configuration says.
        database: what one of several is called; empty if there is one.
    """
    if url is None:
        return configured
    if database and not url.endswith(database_path(database)):
        url += database_path(database)
    return DaemonAddress(url, configured.token_file if configured is not None else None)
