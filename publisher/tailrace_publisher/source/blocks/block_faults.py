"""Unforeseen errors while rows were read or encoded in blocks: the reference then reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from tailrace_publisher.encode.columns.column_forms import Declined
from tailrace_publisher.errors import PublisherError
from tailrace_publisher.source.connection.odbc import OdbcError
from tailrace_service.fault_place import place_of

_log = structlog.get_logger(__name__)


class BlockFaults:
    """The capture instances for which reading in blocks failed unexpectedly.

    From then on their rows are read one by one, which is slower but right.
    """

    def __init__(self) -> None:
        self._met: set[str] = set()

    def has(self, instance: str) -> bool:
        """Return whether a capture instance must be read row by row."""
        return instance in self._met

    @contextmanager
    def declined(self, instance: str) -> Iterator[None]:
        """Read or encode rows of a capture instance.

        Raises:
            Declined: the reference must do it, also after a fault, which is logged once.
            PublisherError, OdbcError: the source failed.
        """
        try:
            yield
        except (Declined, PublisherError, OdbcError):
            raise
        except Exception as error:
            kind = type(error).__name__
            if instance not in self._met:
                self._met.add(instance)
                _log.error(
                    "blocks_failed",
                    capture_instance=instance,
                    error=kind,
                    where=place_of(error),
                    effect="its rows are read one by one until the next start",
                    fix="report this: it is a fault of Tailrace",
                )
            raise Declined(f"{kind} in the block path") from error
