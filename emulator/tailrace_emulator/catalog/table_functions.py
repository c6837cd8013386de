"""How the catalog's table-valued functions declare themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace_emulator.catalog.registry import Row
from tailrace_emulator.values.results import ColumnMeta
from tailrace_emulator.values.types import SqlType, StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.model import Table


@dataclass(frozen=True, slots=True)
class TableSource:
    """What a table function yields: ready rows, or SQLite text with its bound values.

    Attributes:
        sql: a SELECT that names its columns v0, v1... in order; None when ``rows`` is given.
        bindings: values for the text's question marks.
        rows: the rows, when there is no text.
    """

    sql: str | None
    bindings: tuple[StorageValue, ...] = ()
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True)
class TableFunction:
    """A table-valued function of the catalog."""

    name: str
    parameters: tuple[SqlType, ...]
    columns: tuple[ColumnMeta, ...]
    body: Callable[[SessionContext, tuple[StorageValue, ...]], TableSource]
    encoded_table: Table | None = None
    """Whose rows it yields: the columns that this keeps encoded come last, with their bytes."""

    def bind(self, context: SessionContext, arguments: tuple[StorageValue, ...]) -> TableSource:
        """The function's rows for some arguments (storage values of the parameters' types).

        Raises:
            SqlError: what the function reports, such as 313 for an LSN range that is not valid.
        """
        return self.body(context, arguments)
