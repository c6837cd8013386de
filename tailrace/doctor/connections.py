"""Each connection alone, as ``tailrace init`` tries it: briefly, and before there is a pipeline."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final

from tailrace.doctor.access_rules import Identities
from tailrace.doctor.brokers import look_at_brokers
from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace.doctor.large_values import LargeValues
from tailrace.doctor.stores import look_at_registry
from tailrace_publisher.errors import PublisherError
from tailrace_publisher.options.kafka import KafkaConfig
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.log.queries import server_version
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_service.registry.options import RegistryConfig

WAIT_S: Final = 5
_SERVER: Final = Judge(Part.SERVER)
_KAFKA: Final = Judge(Part.KAFKA)


def try_source(source: SourceConfig) -> Finding:
    """Log in to the source's database."""
    place = f"{source.host}:{source.port}"
    try:
        with OdbcConnection(source) as connection:
            return _SERVER.ok(
                place,
                f"{source.account} logged in to {source.database}"
                f" (SQL Server {server_version(connection)})",
            )
    except PublisherError as error:
        fix = Fix("check the answers; tailrace grants prints what creates login and user")
        return _SERVER.problem(place, str(error), "nothing can be read", fix)


def try_brokers(kafka: KafkaConfig) -> Finding:
    """Ask the brokers for their metadata."""
    pairs = [address.strip().rpartition(":") for address in kafka.bootstrap.split(",")]
    silence = _silence([(host.strip("[]"), int(port)) for host, _, port in pairs if port.isdigit()])
    if silence is not None:
        fix = Fix("check host and port of the brokers, and that they run")
        return _KAFKA.problem(kafka.bootstrap, silence, "nothing can be published", fix)
    return next(look_at_brokers(kafka, TopicNames("init"), (), Identities(""), LargeValues()))


def try_registry(registry: RegistryConfig) -> Finding:
    """Ask the registry for its subjects."""
    return next(look_at_registry(registry))


def _silence(addresses: Sequence[tuple[str, int]]) -> str | None:
    """Why none of some addresses accepts a connection; None if one does, or if there is none."""
    reason = None
    for address in addresses:
        try:
            socket.create_connection(address, WAIT_S).close()
        except OSError as error:
            reason = f"does not accept connections ({error.strerror or error})"
        else:
            return None
    return reason
