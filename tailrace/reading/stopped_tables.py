"""What the publisher's checkpoint says of tables that are not part of the cut, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from tailrace.reading.terminal import shown
from tailrace_publisher.checkpoint.reader import read_checkpoints
from tailrace_publisher.daemon.offline.open_topics import open_topics
from tailrace_publisher.daemon.tables.table_state import UNREAD, WHOLE, TableState

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_schemas.records.checkpoint import TableCheckpoint

_UNREAD: Final = {state.value for state in UNREAD - WHOLE}
_LOST: Final = TableState.LOST.value
_ENDED: Final = {_LOST, TableState.STOPPED.value}


@dataclass(frozen=True, slots=True)
class TableNote:
    """Why a table is not part of the cut.

    Attributes:
        state: in a word or two.
        told: a sentence with the fix; empty if there is nothing to do.
    """

    state: str
    told: str = ""


@dataclass(frozen=True, slots=True)
class PublisherNotes:
    """What publishers have kept of themselves.

    Attributes:
        paused_since_ms: since when an operator has paused one, milliseconds UTC; None: nobody has.
        tables: notes of the tables that are not part of the cut, by schema.table.
    """

    paused_since_ms: int | None = None
    tables: Mapping[str, TableNote] = field(default_factory=dict)

    def state_of(self, table: str) -> str:
        """Return the state of a table that is not in the cut."""
        note = self.tables.get(table)
        return "in snapshot or stopped" if note is None else note.state

    def lines(self) -> Iterator[str]:
        """A sentence for the pause, and for each table that has something to do."""
        if self.paused_since_ms is not None:
            since = datetime.fromtimestamp(self.paused_since_ms / 1000, UTC)
            yield (
                f"The publisher is paused since {since.isoformat(' ', 'seconds')}: nothing is"
                " published until tailrace resume."
            )
        yield from (shown(note.told) for note in self.tables.values() if note.told)

    def to_json(self) -> dict[str, Any]:
        """As members of a command's JSON object."""
        return {
            "publisher_paused": self.paused_since_ms is not None,
            "not_in_cut": {name: asdict(note) for name, note in self.tables.items()},
        }


def notes_if_readable(config: PublisherConfig) -> PublisherNotes:
    """Read the checkpoints for a command that knows the rest: prints why it cannot."""
    from tailrace_publisher.errors import PublisherError
    from tailrace_service.registry.client import RegistryError

    try:
        return publisher_notes(config)
    except (PublisherError, RegistryError) as error:
        click.echo(shown(f"What is paused or stopped, and why, is not known: {error}"), err=True)
        return PublisherNotes()


def publisher_notes(config: PublisherConfig) -> PublisherNotes:
    """Read the checkpoint; leave out tables that the configuration excludes.

    Raises:
        PublisherError, RegistryError: they cannot be read.
    """
    since: int | None = None
    notes: dict[str, TableNote] = {}
    with open_topics(config) as topics:
        stored = read_checkpoints(topics, config.kafka.start_timeout_s)
        if stored.database is not None:
            since = stored.database.paused_since_ms
        for name, record in stored.tables.items():
            note = note_of(f"{name.schema}.{name.table}", record)
            if note is not None and config.tables.selects(name):
                notes[f"{name.schema}.{name.table}"] = note
    return PublisherNotes(since, notes)


def note_of(table: str, record: TableCheckpoint) -> TableNote | None:
    """Return why a table is not part of the cut; None if it is, as far as its record shows."""
    if record.state in _UNREAD:
        rows = f"{record.snapshot_rows} rows"
        if record.snapshot_paused:
            told = f"The snapshot of {table} is paused at {rows}."
            return TableNote("snapshot paused", f"{told} Fix: tailrace snapshot --resume {table}")
        return TableNote(f"in snapshot, {rows}")
    if record.state == TableState.HALTED.value:
        told = f"The snapshot of {table} was stopped. Fix: tailrace snapshot {table}"
        return TableNote("snapshot stopped", told)
    if record.state in _ENDED:
        unknown = "its log has why"
        if record.state == _LOST:
            unknown = (
                "it is not captured any more (DROP TABLE, sys.sp_cdc_disable_table), or waits for a"
                f" capture instance. Fix: tailrace enable {table}, or leave it out:"
                " publisher.tables.exclude"
            )
        reason = record.stopped_reason or unknown
        return TableNote("stopped", f"The publisher stopped {table}: {reason}")
    return None
