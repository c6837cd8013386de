"""A process that publishes several databases, each as if it were alone (ADR 0037, 0127).

Each has its own connections, producer, state and metrics, and a thread for its publisher. They
share the process, the HTTP endpoint and the stop. A member of a fleet publishes those that the
fleet's group assigns to it; any other process publishes all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

import structlog

from tailrace_publisher.daemon.adapters.client_log import install_client_log
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.daemon.process.databases_endpoint import routes_of_all
from tailrace_publisher.daemon.process.endpoint import served
from tailrace_publisher.daemon.process.fleet import Assignment, Everything, Fleet
from tailrace_publisher.daemon.process.one_database import OneDatabase
from tailrace_publisher.daemon.process.separate_databases import problems_of
from tailrace_publisher.daemon.process.traces import traces_of
from tailrace_publisher.errors import ConfigError
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Ports, Stop
from tailrace_publisher.runtime import OnStep, Runtime
from tailrace_service.http.messages import Routes

_log = structlog.get_logger(__name__)

_LOOK_S: Final = 0.1


def run_databases(
    configs: Mapping[str, PublisherConfig],
    stop: Stop,
    *,
    start: threading.Event | None = None,
    ports: Ports | None = None,
    on_step: OnStep = lambda _: None,
) -> None:
    """Publish several databases until the stop is set; one that fails ends none of the others.

    Each database waits on its own for errors that waiting may cure. With any other error it stops,
    logs the reason, and restarts on request. The function returns when nothing more is wanted of
    any database (snapshot.mode: initial_only).

    Args:
        configs: the options of each database, by its name; the first one's set the endpoint.
        start: set to start the stopped ones.
        on_step: called at each step of any of them, in its thread.

    Raises:
        ConfigError: the databases would share topics, or an option is not usable.
        PublisherError: the error of the first database, if all are stopped.
    """
    supervise(configs, stop, routes_of_all, start=start, ports=ports, on_step=on_step)


def supervise(
    configs: Mapping[str, PublisherConfig],
    stop: Stop,
    routes: Callable[[Sequence[OneDatabase]], Routes],
    *,
    start: threading.Event | None = None,
    ports: Ports | None = None,
    on_step: OnStep = lambda _: None,
) -> None:
    """Publish databases as :func:`run_databases`, with the routes of an endpoint."""
    problems = problems_of(configs)
    if problems:
        raise ConfigError(problems)
    install_client_log()
    outside = ports or production_ports(stop)
    first = next(iter(configs.values()))
    with ExitStack() as resources:
        databases = []
        for name, config in configs.items():
            traces = resources.enter_context(traces_of(config))
            runtime = Runtime(config, outside, Metrics(), stop, on_step, traces)
            databases.append(OneDatabase(name, runtime))
        assignment = (Fleet if first.fleet.join else Everything)(databases, outside, stop)
        resources.enter_context(served(first, routes(databases)))
        _supervise(databases, assignment, stop, start or threading.Event())


def _supervise(
    databases: Sequence[OneDatabase], assignment: Assignment, stop: Stop, start: threading.Event
) -> None:
    _log.info("databases_started", databases=[one.name for one in databases])
    try:
        while not stop.is_set():
            assignment.look(_LOOK_S)
            if start.is_set():
                start.clear()
                for one in databases:
                    one.request_start()
            for one in databases:
                one.look()
            if _is_over(databases):
                return
    finally:
        assignment.close()
        for one in databases:
            one.wait()


def _is_over(databases: Sequence[OneDatabase]) -> bool:
    """Return whether nothing that is here runs or waits.

    A member with a stopped database stays while the fleet may still assign others to it. If nothing
    more is wanted of what it has, the other members finish the rest.

    Raises:
        BaseException: the error of the first stopped database.
    """
    phases = {one.phase for one in databases if one.is_here}
    if not phases or not phases <= {"stopped", "ended"}:
        return False
    if "stopped" in phases and not all(one.is_here for one in databases):
        return False
    for one in databases:
        if one.error is not None:
            raise one.error
    return True
