"""What concerns one table, whatever the others do (ADR 0008)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from tailrace_publisher.errors import (
    EncodeError,
    PermissionMissing,
    PositionExpired,
    PublisherError,
    SchemaRefused,
    SnapshotTooLarge,
    SourceError,
    TableFailed,
    UnexpectedTableError,
    UnsupportedSchemaChange,
)
from tailrace_schemas.registry import RegistryError
from tailrace_schemas.topics import TableName
from tailrace_schemas.types import UnsupportedType

_log = structlog.get_logger(__name__)

OF_ONE_TABLE: Final = (
    EncodeError,
    PermissionMissing,
    PositionExpired,
    SchemaRefused,
    SnapshotTooLarge,
    UnexpectedTableError,
    UnsupportedSchemaChange,
    UnsupportedType,
)
"""Errors that concern one table, whatever the others do, when they come while it is handled."""


@contextmanager
def of_one_table(table: TableName, doing: str) -> Iterator[None]:
    """Handle one table: what goes wrong in the block, and is nobody else's, is its failure.

    A statement that the server or the driver refuses for a reason of no known kind is about this
    table's rows or columns, and so is an exception that nobody foresaw. A server, broker or
    registry that does not answer is not.

    Args:
        table: the table.
        doing: what the block does, and with what: "reading change rows of dbo_flights".

    Raises:
        TableFailed: what concerns the table.
        PublisherError, RegistryError: what concerns the others as well.
    """
    try:
        yield
    except OF_ONE_TABLE as error:
        raise TableFailed(table, error) from error
    except (PublisherError, RegistryError) as error:
        if type(error) is SourceError:
            raise TableFailed(table, error) from error
        raise
    except Exception as error:
        _log.exception("unexpected_error", table=str(table), doing=doing)
        raise TableFailed(table, UnexpectedTableError(doing, error)) from error
