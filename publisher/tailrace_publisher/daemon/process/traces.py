"""The export of a process's traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from tailrace_publisher.errors import ConfigError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_service.tracing.export import TracingUnavailable, open_traces
from tailrace_service.tracing.traces import Traces

_log = structlog.get_logger(__name__)


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
