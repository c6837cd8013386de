"""Run a publisher: of all tables, of one shard of them, or of the shards a group assigns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import structlog
from prometheus_client.registry import Collector

from tailrace_publisher.daemon.adapters.client_log import install_client_log
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.daemon.process.endpoint import endpoint
from tailrace_publisher.daemon.process.sharing import SharingPublisher
from tailrace_publisher.daemon.session.conductor import Conductor
from tailrace_publisher.daemon.status.status_board import StatusBoard
from tailrace_publisher.errors import ConfigError
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Ports, Stop
from tailrace_publisher.runtime import OnStep, Runtime
from tailrace_schemas.records.shards import Shard
from tailrace_service.tracing.export import TracingUnavailable, open_traces
from tailrace_service.tracing.traces import Traces

_log = structlog.get_logger(__name__)


class Publisher(Protocol):
    """A publisher of a database: of all tables, of one shard, or of the shards a group assigns."""

    @property
    def board(self) -> StatusBoard:
        """The publisher's status."""

    @property
    def metrics(self) -> Collector:
        """The publisher's metrics."""

    def run(self) -> None:
        """Publish until the stop is set, or until nothing more is wanted.

        Raises:
            PublisherError: an error that waiting does not cure.
        """


def publisher_of(runtime: Runtime, shard: Shard | None = None) -> Publisher:
    """Create the publisher that the configuration describes.

    Args:
        shard: the only shard to publish; default: as the configuration says.

    Raises:
        ConfigError: an option is not usable.
    """
    if shard is None and runtime.config.shards.count > 1:
        return SharingPublisher(runtime)
    return Conductor(runtime)


def run(
    config: PublisherConfig,
    stop: Stop,
    *,
    metrics: Metrics | None = None,
    ports: Ports | None = None,
    on_step: OnStep = lambda _: None,
    shard: Shard | None = None,
) -> None:
    """Publish the changes of one database, or of shards of its tables, until the stop is set.

    With shards.count above 1 it publishes the shards that Kafka's consumer group assigns to it.

    With snapshot.mode: initial_only it returns when the snapshots of all tables are published.

    It logs errors that waiting may cure, waits, and retries from the checkpoint. Examples are an
    unavailable broker, registry or server, and a doubtful commit. It raises all other errors. Once
    there is a checkpoint, it also waits for errors of the source, unless they cannot heal
    (:attr:`PublisherError.may_heal`).

    Args:
        stop: set to end it cleanly: what is sent is committed or aborted as a whole.
        metrics: new ones by default. Assigned shards have their own.
        on_step: called at each step, for tests that stop the process there.
        shard: the only shard to publish; default: as the configuration says.

    Raises:
        ConfigError: an option is not usable.
        PreflightError: the source is not ready; names every problem.
        PublisherError: an error that waiting does not cure.
    """
    install_client_log()
    with traces_of(config) as traces:
        runtime = Runtime(
            config,
            ports or production_ports(stop),
            metrics or Metrics(),
            stop,
            on_step,
            shard or Shard(),
            traces,
        )
        publisher = publisher_of(runtime, shard)
        with endpoint(runtime, publisher.board, publisher.metrics):
            publisher.run()


@contextmanager
def traces_of(config: PublisherConfig) -> Iterator[Traces | None]:
    """Open the export of traces for the block; None if the options want no traces.

    Raises:
        ConfigError: the packages for it are missing, or an option is not usable.
    """
    try:
        traces = open_traces(config.tracing, "tailrace-publisher")
    except TracingUnavailable as error:
        raise ConfigError([str(error)]) from error
    if traces is not None:
        _log.info("traces_sent", endpoint=config.tracing.endpoint, ratio=config.tracing.ratio)
    try:
        yield traces
    finally:
        if traces is not None:
            traces.close()
