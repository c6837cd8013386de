"""Run the publisher of one database: in this thread, or as a member of a fleet."""

from __future__ import annotations

from tailrace_publisher.daemon.adapters.client_log import install_client_log
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.daemon.process.databases import supervise
from tailrace_publisher.daemon.process.databases_endpoint import routes_of_only
from tailrace_publisher.daemon.process.endpoint import endpoint
from tailrace_publisher.daemon.process.traces import traces_of
from tailrace_publisher.daemon.session.conductor import Conductor
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Ports, Stop
from tailrace_publisher.runtime import OnStep, Runtime


def run(
    config: PublisherConfig,
    stop: Stop,
    *,
    metrics: Metrics | None = None,
    ports: Ports | None = None,
    on_step: OnStep = lambda _: None,
) -> None:
    """Publish the changes of one database until the stop is set.

    With fleet.join it publishes while Kafka's consumer group assigns the database to it, and stands
    by otherwise.

    With snapshot.mode: initial_only it returns when the snapshots of all tables are published.

    It logs errors that waiting may cure, waits, and retries from the checkpoint. Examples are an
    unavailable broker, registry or server, and a doubtful commit. It raises all other errors. Once
    there is a checkpoint, it also waits for errors of the source, unless they cannot heal
    (:attr:`PublisherError.may_heal`).

    Args:
        stop: set to end it cleanly: what is sent is committed or aborted as a whole.
        metrics: new ones by default. Each publishing of a fleet's member has its own.
        on_step: called at each step, for tests that stop the process there.

    Raises:
        ConfigError: an option is not usable.
        PreflightError: the source is not ready; names every problem.
        PublisherError: an error that waiting does not cure.
    """
    if config.fleet.join:
        configs = {config.source.database: config}
        supervise(configs, stop, routes_of_only, ports=ports, on_step=on_step)
        return
    install_client_log()
    with traces_of(config) as traces:
        outside = ports or production_ports(stop)
        runtime = Runtime(config, outside, metrics or Metrics(), stop, on_step, traces)
        conductor = Conductor(runtime)
        with endpoint(runtime, conductor.board, conductor.metrics):
            conductor.run()
