"""Which capture instances have news: one question for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import CaptureInstanceGone, SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.connection.connection import quote_text
from tailrace_publisher.source.log.queries import INVALID_OBJECT, all_changes, change_table
from tailrace_schemas.position.lsn import Lsn

PROBE_INSTANCES: Final = 100
"""Instances of one probe: few enough that a server compiles it quickly; when an instance is new,
only the text of the last group is."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Asks which of some capture instances have rows in a range.

    One round trip, however many are quiet: each branch is one seek of a clustered index. Its
    statements have a hundred branches each; their texts depend on the instances alone and declare
    their two parameters, so long ones are kept at the server: see Connection.

    Attributes:
        statements: each asks about some of them.
    """

    statements: tuple[str, ...]

    @classmethod
    def of(cls, instances: Iterable[CaptureInstance]) -> Probe:
        """The probe of some capture instances."""
        # In the order in which they were made, so that the statements stay as they are.
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
        """Names of the capture instances that have rows with first <= LSN <= up_to.

        Raises:
            CaptureInstanceGone: one of the change tables is not there any more.
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
    """The statement that asks which capture instances have rows in a range.

    Args:
        names: of the instances, at least one.

    Returns:
        The text; its parameters are the lowest and the highest LSN of the range.
    """
    branches = " UNION ALL ".join(
        f"SELECT {quote_text(name)} AS capture_instance WHERE EXISTS"
        f" (SELECT * FROM {change_table(name)}"
        " WHERE [__$start_lsn] >= @first AND [__$start_lsn] <= @up_to)"
        for name in names
    )
    return f"DECLARE @first binary(10) = ?, @up_to binary(10) = ?; {branches}"


def function_probe_of(instances: Sequence[CaptureInstance]) -> str:
    """The same through the query functions, which refuse a range that begins before they do.

    An instance without news gives no result set.

    Args:
        instances: at least one.
    """
    # Statements that are not kept go side by side in one batch, so the variable is each one's own.
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
