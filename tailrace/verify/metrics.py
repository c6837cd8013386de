"""The metrics of ``tailrace verify --continuous`` for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge

from tailrace.verify.verified import VerifiedTable
from tailrace_schemas.position.lsn import Lsn


class VerifyMetrics:
    """What was verified of each table."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._tables: set[str] = set()
        self._lsn = Gauge(
            "tailrace_verified_lsn",
            "LSN as a number, rounded to 53 bits: every row of the table was found equal at it or"
            " later. 0 until all were",
            ["table"],
            registry=self.registry,
        )
        self._age = Gauge(
            "tailrace_verified_age_seconds",
            "Seconds since the oldest key range of the table was found equal; of a new table since"
            " it was first seen",
            ["table"],
            registry=self.registry,
        )
        self._differing = Gauge(
            "tailrace_verified_differing_rows",
            "Rows that differed when their key range was last compared",
            ["table"],
            registry=self.registry,
        )
        self._rows = Counter(
            "tailrace_verified_rows",
            "Rows of the source that were compared",
            ["table"],
            registry=self.registry,
        )

    def show(self, tables: Mapping[str, VerifiedTable]) -> None:
        """Show what is known of all tables."""
        for gone in self._tables - tables.keys():
            for metric in (self._lsn, self._age, self._differing, self._rows):
                metric.remove(gone)
        self._tables = set(tables)
        for name, table in tables.items():
            lsn = Lsn.ZERO if table.lsn is None else Lsn.parse(table.lsn)
            self._lsn.labels(name).set(int.from_bytes(lsn.to_bytes(), "big"))
            self._age.labels(name).set_function(partial(_seconds_since, table.oldest_ms))
            self._differing.labels(name).set(table.differing)
            self._rows.labels(name)

    def compared(self, table: str, rows: int) -> None:
        """Count rows that were compared."""
        self._rows.labels(table).inc(rows)


def _seconds_since(at_ms: int) -> float:
    return max(0.0, time.time() - at_ms / 1000)
