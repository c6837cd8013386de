"""The schema registry's answers, stored across restarts of the publisher within its process."""

from __future__ import annotations

from dataclasses import dataclass, field

from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.events.forms import EventShape
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName


@dataclass(slots=True)
class KnownSchemas:
    """The schema registry's answers, which outlive a session of the publisher.

    Attributes:
        versions: the versions of each table, oldest first.
        ids: of registered schemas, by subject and fingerprint.
        encoders: by capture instance and schema LSN; their schemas are registered.
        compatible: subjects whose compatibility mode is set.
        shapes: the shape of the events of each table's newest version.
    """

    versions: dict[TableName, list[TableSchema]] = field(default_factory=dict)
    ids: dict[tuple[str, bytes], int] = field(default_factory=dict)
    encoders: dict[tuple[str, Lsn], EnvelopeEncoder] = field(default_factory=dict)
    compatible: set[str] = field(default_factory=set)
    shapes: dict[TableName, EventShape] = field(default_factory=dict)
