"""What concerns one table, whatever the others do (ADR 0008)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from tailrace_publisher.errors import PublisherError, TableFailed, UnexpectedTableError
from tailrace_schemas.registry import RegistryError
from tailrace_schemas.topics import TableName
from tailrace_schemas.types import UnsupportedType

_log = structlog.get_logger(__name__)


@contextmanager
def of_one_table(table: TableName, doing: str) -> Iterator[None]:
    """Handle one table: what goes wrong in the block, and is nobody else's, is its failure.

    Errors say themselves whether they concern the others as well (``of_one_table``): a server,
    broker or registry that does not answer does. What nobody foresaw is this table's alone.

    Args:
        table: the table.
        doing: what the block does, and with what: "reading change rows of dbo_flights".

    Raises:
        TableFailed: what concerns the table.
        PublisherError, RegistryError: what concerns the others as well.
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
        _log.exception("unexpected_error", table=str(table), doing=doing)
        raise TableFailed(table, UnexpectedTableError(doing, error)) from error
