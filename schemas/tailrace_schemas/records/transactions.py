"""Begin and end of source transactions, published alongside the data: ``<prefix>.transaction``.

Debezium's shape and names (its option provide.transaction.metadata). The records go in the same
Kafka transaction as the events that they speak of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tailrace_schemas.avsc import load
from tailrace_schemas.position.lsn import Lsn

BOUNDARY_KEY_SCHEMA: Final[dict[str, Any]] = load("transaction_boundary_key")
"""Key of the transaction topic."""

BOUNDARY_SCHEMA: Final[dict[str, Any]] = load("transaction_boundary")
"""Value of the transaction topic; its fields are explained in avsc/transaction_boundary.avsc."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Begin or end of a source transaction.

    Attributes:
        commit_ms: its commit time, milliseconds UTC; None if unknown.
        counts: events per table; None at the begin.
    """

    commit_lsn: Lsn
    commit_ms: int | None
    counts: Mapping[str, int] | None = None

    def to_key(self) -> dict[str, Any]:
        """The fields of ``BOUNDARY_KEY_SCHEMA``."""
        return {"id": str(self.commit_lsn)}

    def to_record(self) -> dict[str, Any]:
        """The fields of ``BOUNDARY_SCHEMA``."""
        counts = self.counts
        return {
            "status": "BEGIN" if counts is None else "END",
            "id": str(self.commit_lsn),
            "event_count": None if counts is None else sum(counts.values()),
            "data_collections": None
            if counts is None
            else [
                {"data_collection": table, "event_count": count}
                for table, count in sorted(counts.items())
            ],
            "ts_ms": self.commit_ms,
        }
