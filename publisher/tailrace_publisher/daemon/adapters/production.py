"""The outside world: the real implementations of the ports."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

import structlog
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tailrace_publisher.daemon.adapters.client_log import CLIENT_LOGGER
from tailrace_publisher.deliver.kafka_errors import unusable_options
from tailrace_publisher.errors import ClientUnusable
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.ports import (
    GroupMember,
    KafkaAccess,
    KafkaAdmin,
    KafkaConsumer,
    KafkaProducer,
    Ports,
    Stop,
)
from tailrace_publisher.source.connection.cancelling import Cancelling
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_publisher.source.connection.session_settings import SESSION_SETTINGS
from tailrace_publisher.source.pages.page_readers import BlockReading
from tailrace_service.registry.access import open_registry

_Client = TypeVar("_Client")
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_log = structlog.get_logger(__name__)
_THREADS: Final = {"registry": 8, "registry-beside": 2}
"""Thread counts above one. A registry answers within milliseconds, but a thousand tables one after
another would take half a minute. While the stream runs there are few threads, because each competes
with the readers of rows for the interpreter's lock."""

_CLIENT_LOG: Final = logging.getLogger(CLIENT_LOGGER)


class ConfluentClients:
    """Clients of librdkafka, which log to one logger.

    Raises:
        ClientUnusable: librdkafka refuses the options, or the files that they name.
    """

    def producer(self, options: Mapping[str, Any]) -> KafkaProducer:
        """A producer."""
        return _client(Producer, options)

    def consumer(self, options: Mapping[str, Any]) -> KafkaConsumer:
        """A consumer."""
        return _client(Consumer, options)

    def admin(self, options: Mapping[str, Any]) -> KafkaAdmin:
        """An admin client."""
        return _client(AdminClient, options)


def _client(kind: Callable[..., _Client], options: Mapping[str, Any]) -> _Client:
    try:
        return kind(dict(options), logger=_CLIENT_LOG)
    except KafkaException as error:
        raise ClientUnusable([unusable_options(error)]) from error


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self._never = threading.Event()

    def now_ms(self) -> int:
        """Return milliseconds UTC since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment."""
        return time.monotonic()

    def wait(self, seconds: float, stop: Stop | None = None) -> None:
        """Wait until the time has passed or the stop is set."""
        (self._never if stop is None else stop).wait(seconds)


def production_ports(stop: Stop | None = None) -> Ports:
    """Create the real ports.

    Args:
        stop: cancels running statements of SQL Server when it is set.
    """
    cancelling = None if stop is None else Cancelling(stop)
    return Ports(
        connect=partial(_connect, cancelling),
        kafka=ConfluentClients(),
        registry=open_registry,
        clock=SystemClock(),
        executor=_threads,
        connect_blocks=partial(_connect_blocks, cancelling),
        join=_join,
    )


def kafka_at(bootstrap: str, extra: Mapping[str, str] | None = None) -> KafkaAccess:
    """Return access to some brokers, through the real client.

    Args:
        bootstrap: comma-separated host:port of some of them.
        extra: other options of librdkafka.
    """
    return KafkaAccess(
        ConfluentClients(), {"bootstrap.servers": bootstrap, **(extra or {})}, SystemClock()
    )


def _connect(cancelling: Cancelling | None, config: SourceConfig) -> OdbcConnection:
    connection = OdbcConnection(config)
    try:
        connection.query(SESSION_SETTINGS)
    except BaseException:
        connection.close()
        raise
    if cancelling is not None:
        cancelling.add(connection)
    return connection


def _connect_blocks(cancelling: Cancelling | None, config: SourceConfig) -> BlockReading | None:
    try:
        from tailrace_publisher.source.blocks.block_paths import BlockPaths

        paths = BlockPaths(config)
    except (ImportError, OSError) as error:
        _log.info("block_reading_unavailable", reason=str(error))
        return None
    if cancelling is not None:
        cancelling.add(paths)
    return paths


def _join(options: Mapping[str, Any]) -> GroupMember:
    return _client(Consumer, options)


class _Threads(ThreadPoolExecutor):
    """Threads that log with the context of the caller that submits work: its database."""

    def submit(
        self,
        fn: Callable[_Parameters, _Result],
        /,
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> Future[_Result]:
        return super().submit(copy_context().run, partial(fn, *args, **kwargs))


def _threads(purpose: str) -> Executor:
    return _Threads(_THREADS.get(purpose, 1), purpose)
