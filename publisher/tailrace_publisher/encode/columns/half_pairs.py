"""Halves of surrogate pairs in text, if they may not stop the table.

SQL Server stores any UTF-16 code units. LEFT of an emoji, or a text that an application cut, ends
in half a pair. That is no character, and UTF-8, hence Avro, has no form for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog

from tailrace_publisher.options.events import Surrogates
from tailrace_schemas.events.envelope import SchemaColumn

_log = structlog.get_logger(__name__)


class HalfPairs:
    """Removes half pairs from the values of one table's columns; logs it once per column.

    Key columns are excluded, because two rows would become one.

    Args:
        policy: replace them, publish NULL, or fail.
        table: name of the table, for the log.
    """

    def __init__(self, policy: Surrogates, table: str) -> None:
        self.policy = policy
        self._table = table
        self._logged: set[str] = set()

    def without(self, column: SchemaColumn, values: Sequence[Any]) -> list[Any] | None:
        """Return the values of a text column without half pairs; None if they are refused."""
        if self.policy is Surrogates.FAIL or column.key_ordinal:
            return None
        if column.name not in self._logged:
            self._logged.add(column.name)
            _log.warning(
                "half_surrogate_pairs",
                table=self._table,
                column=column.name,
                effect="these characters are published as U+FFFD"
                if self.policy is Surrogates.REPLACE
                else "these values are published as NULL",
                fix="correct them at the source, or set surrogates to fail to stop the table",
            )
        if self.policy is Surrogates.NULL:
            return [None if value is not None and _is_broken(value) else value for value in values]
        return [value if value is None else _repaired(value) for value in values]


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _repaired(text: str) -> str:
    return text.encode("utf-16le", "surrogatepass").decode("utf-16le", "replace")
