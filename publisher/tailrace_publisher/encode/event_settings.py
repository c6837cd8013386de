"""The options for the events of one table."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from tailrace_publisher.encode.columns.placeholder import Placeholder
from tailrace_publisher.encode.columns.value_hash import ValueHash
from tailrace_publisher.encode.encoded_events import Serializer
from tailrace_publisher.encode.event_kinds import Kind
from tailrace_publisher.options.events import OnBadEvent, Surrogates, UnavailableValues
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.events.forms import EventForm
from tailrace_schemas.topics.topic_names import TableName

_KINDS: Final = {
    "c": {Kind.INSERT},
    "u": {Kind.UPDATE, Kind.KEY_DELETE, Kind.KEY_INSERT},
    "d": {Kind.DELETE},
}


@dataclass(frozen=True, slots=True)
class Treatment:
    """How events are encoded, and which are left out.

    Attributes:
        surrogates: how to treat half a surrogate pair.
        hashes: the hash function of hashed columns.
        skips_unchanged: whether to leave out updates whose two images are equal.
        around: whether events that do not fit become dead letters.
        placeholder: text for values that change tables do not hold. None for NULL.
        serializer: rewrites the version's events. None leaves them as Avro.
    """

    surrogates: Surrogates = Surrogates.FAIL
    hashes: ValueHash | None = None
    skipped: Set[int] = frozenset()
    skips_unchanged: bool = False
    form: EventForm = EventForm.DEBEZIUM
    around: bool = False
    placeholder: str | None = None
    serializer: Serializer | None = None

    @classmethod
    def of(cls, config: PublisherConfig, hashes: ValueHash | None, table: TableName) -> Treatment:
        """Return the options for a table, given by its published name.

        Args:
            hashes: created from the options.
        """
        kinds = [_KINDS[operation] for operation in config.skip.operations_of(table)]
        return cls(
            config.surrogates,
            hashes,
            frozenset(int(kind) for found in kinds for kind in found),
            config.skip.unchanged,
            config.event_form,
            config.on_bad_event is OnBadEvent.DEAD_LETTER,
            config.unavailable_placeholder
            if config.unavailable_values is UnavailableValues.PLACEHOLDER
            else None,
        )

    def placeholder_of(self, schema: TableSchema) -> Placeholder | None:
        """Return what fills the images of a version; None without a placeholder."""
        return None if self.placeholder is None else Placeholder(schema, self.placeholder)

    @property
    def skips(self) -> bool:
        """Whether any event is left out."""
        return self.skips_unchanged or bool(self.skipped)
