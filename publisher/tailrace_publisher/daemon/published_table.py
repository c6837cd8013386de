"""A published table, and from where it is read."""

from __future__ import annotations

from dataclasses import dataclass, field

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_schemas.envelope import TableSchema
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.topics import TableName


@dataclass(slots=True)
class PublishedTable:
    """A table with everything that its rows need.

    Attributes:
        name: the table.
        topic: where its events go.
        instances: its capture instances, oldest first.
        versions: per recognised capture instance its schema versions, oldest first; empty when the
            table cannot go on.
        is_stopped: whether it cannot go on.
        object_ids: of the change tables of its instances when it was last taken in: an instance
            that was disabled and made again under its name has another one.
    """

    name: TableName
    topic: str
    instances: list[CaptureInstance]
    versions: dict[str, tuple[TableSchema, ...]] = field(default_factory=dict)
    is_stopped: bool = False
    object_ids: dict[str, int] = field(default_factory=dict)

    @property
    def recognised(self) -> list[CaptureInstance]:
        """The instances that the capture process has come to, oldest first."""
        return [instance for instance in self.instances if instance.low_watermark is not None]


@dataclass(frozen=True, slots=True)
class Reading:
    """From where a table is read in a window.

    Attributes:
        table: the table.
        instance: the capture instance.
        schema: the version in force.
        covers_from: LSN from which on the instance holds the table's changes.
    """

    table: PublishedTable
    instance: CaptureInstance
    schema: TableSchema
    covers_from: Lsn
