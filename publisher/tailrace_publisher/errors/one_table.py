"""Errors that stop one table while the others continue (ADR 0008)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from tailrace_publisher.errors import PublisherError, TableFailed, UnexpectedTableError
from tailrace_schemas.events.column_types import UnsupportedType
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.fault_place import place_of
from tailrace_service.registry.client import RegistryError

_log = structlog.get_logger(__name__)


def text_of(error: BaseException) -> str:
    """Return what may be logged of an error: of an unforeseen one, only where it was raised."""
    if isinstance(error, PublisherError | RegistryError):
        return str(error)
    return f"a fault of Tailrace, raised in {place_of(error)}"


@contextmanager
def of_one_table(table: TableName, doing: str) -> Iterator[None]:
    """Handle one table: an error in the block that affects only this table becomes TableFailed.

    Errors declare whether they affect other tables too (``of_one_table``), like one of an
    unreachable server, broker or registry. An unforeseen error affects this table alone.

    Args:
        table: the table that is handled.
        doing: what the block does, and with what, such as "reading change rows of dbo_flights".

    Raises:
        TableFailed: the error affects only the table.
        PublisherError, RegistryError: the error affects other tables too.
    """
    try:
        yield
    except UnsupportedType as error:
        raise TableFailed(table, error) from error
    except (PublisherError, RegistryError) as error:
        if not error.of_one_table:
            raise
        raise TableFailed(table, error) from error
    except Exception as error:
        _log.error(
            "unexpected_error",
            table=str(table),
            doing=doing,
            error=type(error).__name__,
            where=place_of(error),
        )
        raise TableFailed(table, UnexpectedTableError(doing, error)) from error
