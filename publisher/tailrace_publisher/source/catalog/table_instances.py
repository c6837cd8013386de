"""The capture instances of one table: their order, and which of them is read at an LSN (pure).

SQL Server takes two for a table. Where they start in the log says which one is the newer. Their
creation dates do not say it, because they are local times. Such times go backwards in the hour that
comes twice, after a clock was set back, and at a replica in another time zone.

See: cdc.change_tables, create_date and start_lsn
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName


class TableInstances(tuple[CaptureInstance, ...]):
    """All capture instances of one table, in the order in which they were created; at least one."""

    __slots__ = ()

    @classmethod
    def of(
        cls, instances: Iterable[CaptureInstance], starts: Mapping[str, Lsn] | None = None
    ) -> TableInstances:
        """Return the instances of a table in their order.

        One without a start is the newest: the capture process has not reached it yet. If neither
        has one, or cleanup has raised both to one LSN, the creation date decides.

        Args:
            starts: LSN from which each recognised instance holds the table's changes, by name. None
                to take the low watermarks, which cleanup raises.
        """

        def place(instance: CaptureInstance) -> tuple[Lsn, object, int]:
            start = instance.low_watermark if starts is None else starts.get(instance.name)
            return start or Lsn.MAX, instance.create_date, instance.object_id

        return cls(sorted(instances, key=place))

    @property
    def oldest(self) -> CaptureInstance:
        """The instance that was created first."""
        return self[0]

    @property
    def newest(self) -> CaptureInstance:
        """The instance that was created last."""
        return self[-1]


def by_table(instances: Iterable[CaptureInstance]) -> dict[TableName, TableInstances]:
    """Group capture instances by source table."""
    found: defaultdict[TableName, list[CaptureInstance]] = defaultdict(list)
    for instance in instances:
        found[instance.table].append(instance)
    return {name: TableInstances.of(of_table) for name, of_table in found.items()}


def choose_instance(
    instances: Sequence[CaptureInstance], covers_from: Mapping[str, Lsn], lsn: Lsn
) -> CaptureInstance | None:
    """Choose the capture instance from which a table's changes of a commit are read.

    While a table has two, both are filled in parallel. The newer one takes over after the LSN from
    which it covers the table.

    Args:
        instances: of one table, oldest first.
        covers_from: LSN from which each recognised instance holds the table's changes, by name.
        lsn: commit LSN of the change.

    Returns:
        None if the capture process has not recognised any of them yet.
    """
    recognised = [instance for instance in instances if instance.name in covers_from]
    if not recognised:
        return None
    covering = [instance for instance in recognised if covers_from[instance.name] < lsn]
    if covering:
        return max(reversed(covering), key=lambda instance: covers_from[instance.name])
    return min(recognised, key=lambda instance: covers_from[instance.name])
