"""What concerns one table, whatever the others do (ADR 0008)."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog

from tailrace_publisher.errors import PublisherError, TableFailed, UnexpectedTableError
from tailrace_schemas.events.column_types import UnsupportedType
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.registry.client import RegistryError

_log = structlog.get_logger(__name__)

_FRAMES: Final = 8


def place_of(error: BaseException) -> str:
    """Where an error that nobody foresaw was raised, and by what way: its text may hold values."""
    frames = traceback.extract_tb(error.__traceback__)
    return " > ".join(f"{Path(f.filename).stem}:{f.lineno} {f.name}" for f in frames[-_FRAMES:])


def text_of(error: BaseException) -> str:
    """What may be logged of an error: of one that nobody foresaw where it was raised."""
    if isinstance(error, PublisherError | RegistryError):
        return str(error)
    return f"a fault of Tailrace, raised in {place_of(error)}"


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
        _log.error(
            "unexpected_error",
            table=str(table),
            doing=doing,
            error=type(error).__name__,
            where=place_of(error),
        )
        raise TableFailed(table, UnexpectedTableError(doing, error)) from error
