"""Which capture instances have news: one round trip for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import CaptureInstanceGone, SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.connection.quoting import quote_text
from tailrace_publisher.source.log.queries import INVALID_OBJECT, all_changes, change_table
from tailrace_schemas.position.lsn import Lsn

PROBE_INSTANCES: Final = 100
"""Instances of one statement: few enough to compile quickly. A new instance changes only the text
of the last statement."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Queries which of some capture instances have rows in a range.

    It takes one round trip, however many instances are quiet: each branch is one seek of a
    clustered index. A statement has a hundred branches. Its text depends on the instances alone and
    declares its two parameters, so the server keeps it prepared: see Connection.

    Attributes:
        statements: each covers some of the instances.
    """

    statements: tuple[str, ...]

    @classmethod
    def of(cls, instances: Iterable[CaptureInstance]) -> Probe:
        """Create the probe of some capture instances."""
        # In the order of their creation, so that the statements do not change.
        ordered = sorted(instances, key=lambda instance: instance.object_id)
        groups = [
            ordered[start : start + PROBE_INSTANCES]
            for start in range(0, len(ordered), PROBE_INSTANCES)
        ]
        return cls(
            tuple(
                function_probe_of(group)
                if group[0].by_function
                else probe_of([instance.name for instance in group])
                for group in groups
            )
        )

    def ask(self, connection: Connection, first: Lsn, up_to: Lsn) -> list[str]:
        """Return the names of the capture instances that have rows with first <= LSN <= up_to.

        Raises:
            CaptureInstanceGone: one of the change tables does not exist any more.
            SourceError: the server did not answer.
        """
        if not self.statements:
            return []
        try:
            sets = connection.query_together(self.statements, first.to_bytes(), up_to.to_bytes())
        except SourceError as error:
            if error.number == INVALID_OBJECT:
                raise CaptureInstanceGone("of one table", str(error)) from error
            raise
        return [str(row[0]) for rows in sets for row in rows]


def probe_of(names: Sequence[str]) -> str:
    """Return the statement that selects the capture instances with rows in a range.

    Its parameters are the lowest and the highest LSN of the range.

    Args:
        names: of the instances, at least one.
    """
    # See: cdc.<capture_instance>_CT
    branches = " UNION ALL ".join(
        f"SELECT {quote_text(name)} AS capture_instance WHERE EXISTS"
        f" (SELECT * FROM {change_table(name)}"
        " WHERE [__$start_lsn] >= @first AND [__$start_lsn] <= @up_to)"
        for name in names
    )
    return f"DECLARE @first binary(10) = ?, @up_to binary(10) = ?; {branches}"


def function_probe_of(instances: Sequence[CaptureInstance]) -> str:
    """Return the same statement, but through the query functions.

    They refuse a range that starts before the low watermark. An instance without news returns no
    result set.

    Args:
        instances: the instances, at least one.
    """
    # See: cdc.fn_cdc_get_all_changes_<capture_instance>; sys.fn_cdc_get_min_lsn
    # Statements that are not prepared share one batch, so each needs a variable of its own.
    start = f"@from_{instances[0].object_id}"
    branches = "".join(
        f" SET {start} = sys.fn_cdc_get_min_lsn({quote_text(instance.name)});"
        f" IF {start} < @first SET {start} = @first;"
        f" IF {start} <= @up_to SELECT TOP (1) {quote_text(instance.name)} AS capture_instance"
        f" FROM {all_changes(instance.name)}({start}, @up_to, N'all');"
        for instance in instances
    )
    return (
        "DECLARE @first binary(10) = ?, @up_to binary(10) = ?;"
        f" DECLARE {start} binary(10);{branches}"
    )
