"""The options of snapshots: unit, default, bounds, and the effect of lower and higher values."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from tailrace_publisher.options.sql_condition import check_condition
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.options.sections import Section, check_patterns, matches

Condition = Annotated[str, Field(max_length=4_000)]


class SnapshotMode(StrEnum):
    """What to publish of a table without a checkpoint."""

    INITIAL = "initial"
    INITIAL_ONLY = "initial_only"
    NO_DATA = "no_data"
    WHEN_NEEDED = "when_needed"
    ALWAYS = "always"


class SnapshotIsolation(StrEnum):
    """How the rows of a snapshot are read."""

    AUTO = "auto"
    READ_COMMITTED = "read_committed"


class OnGap(StrEnum):
    """How to handle a table whose change rows were cleaned up before they were read."""

    STOP = "stop"
    SNAPSHOT = "snapshot"


class SnapshotConfig(Section):
    """The first read of a table without a checkpoint."""

    mode: SnapshotMode = Field(
        default=SnapshotMode.INITIAL,
        description="initial publishes every row once as op r, and the changes that follow;"
        " initial_only does the same, and ends once all tables are published (status 0, or 1 if one"
        " was stopped), with a checkpoint from which any other mode resumes; no_data starts with"
        " the changes from now on; when_needed is initial with on_gap: snapshot, and takes a"
        " snapshot of tables that no longer have the changes since publisher.start; always takes a"
        " new snapshot of every table at every start of the process, while the changes are"
        " published, and resumes an unfinished one.",
    )
    on_gap: OnGap = Field(
        default=OnGap.STOP,
        description="How to handle a table whose change rows were gone before they were read, by"
        " cleanup or because its older capture instance was disabled too early, or whose rows"
        " changed without change rows, by SWITCH or ALTER COLUMN: stop stops the table, with an"
        " error, until an operator runs tailrace snapshot; snapshot takes a new snapshot of it at"
        " once. In the lake a new snapshot replaces the table; subscribers of its topic miss the"
        " changes that are gone.",
    )
    chunk_rows: int = Field(
        default=50_000,
        ge=1,
        le=10_000_000,
        description="Rows of a chunk at most, which is published at once after the capture job has"
        " passed it; 1 to 10000000. Lower: more round trips, but no more waiting, because chunks"
        " wait together. Higher: the changes of other tables wait while a chunk is sent.",
    )
    chunk_mb: int = Field(
        default=32,
        ge=1,
        le=4096,
        description="Megabytes of a chunk at most, whichever comes first: wide rows make small"
        " chunks; 1 to 4096, not above memory_mb. A chunk has at least one row. The keys that"
        " change while chunks of a table wait may take as much; with more of them the chunks are"
        " read again.",
    )
    memory_mb: int = Field(
        default=256,
        ge=1,
        le=1_000_000,
        description="Megabytes for all chunks that are read and wait for the capture job; 1 to"
        " 1000000. Lower: snapshots wait more often for the capture job's polling interval (5 s by"
        " default), because no further chunk is read meanwhile. A table without a primary key and"
        " without a unique index over non-null columns cannot be divided into chunks: it is read at"
        " once, one such table at a time, and stops if it is larger.",
    )
    tables_at_once: int = Field(
        default=2,
        ge=1,
        le=32,
        description="Tables that are read at the same time, each over a connection of its own; 1"
        " to 32. Higher: more load on the source, and a table with locked rows delays the others"
        " less.",
    )
    lock_timeout_s: float = Field(
        default=5.0,
        ge=0.1,
        le=300.0,
        description="Seconds to wait for rows that a writer has locked (SET LOCK_TIMEOUT); 0.1 to"
        " 300. A statement is sent three times; then its table is retried later, which is logged"
        " once. The stream and the other tables continue. Lower: short transactions cause retries."
        " Higher: a stop and the next table wait longer.",
    )
    isolation: SnapshotIsolation = Field(
        default=SnapshotIsolation.AUTO,
        description="auto: if the database has ALLOW_SNAPSHOT_ISOLATION ON, each statement reads"
        " alone under SNAPSHOT isolation and waits for no lock; read_committed: always under the"
        " connection's default.",
    )
    where: dict[str, Condition] = Field(
        default_factory=dict,
        description="Pattern on schema.table (regular expression, whole name, case-insensitive) to"
        " the condition, in T-SQL, of the rows that its snapshots read; the first pattern that"
        " matches counts, default: all rows. At most 4000 characters, without comments, ; and ?"
        " outside of texts. The server checks it at a start. Changes are not filtered: a row that"
        " was left out arrives with its next change. An update then is of a row that a reader does"
        " not have, and may lack large values that it did not change (the lake has NULL there). A"
        " snapshot is the whole table: after the next one, the lake no longer has rows that do not"
        " match. A changed condition restarts a running snapshot; rows that are published stay. A"
        " statement reads until it has its rows: if few match and no index helps,"
        " source.query_timeout_s may be too short for it.",
    )

    exempt_policies: list[str] = Field(
        default_factory=list,
        description="Security policies (schema.policy, in any case) whose filter predicates return"
        " every row to the publisher's login. SQL Server does not say which rows a policy hides, so"
        " every read of the rows of a table with another enabled filter is refused: snapshot,"
        " patch, repair, reselected values, tailrace verify. Its changes are complete and continue."
        " Name a policy only if its predicate exempts the login: rows that it hides would be"
        " missing in the lake, and a repair would delete them.",
    )

    @field_validator("where")
    @classmethod
    def _conditions(cls, rules: dict[str, str]) -> dict[str, str]:
        check_patterns(rules)
        for pattern, condition in rules.items():
            try:
                check_condition(condition)
            except ValueError as error:
                raise ValueError(f"the condition of {pattern!r}: {error}") from error
        return rules

    def where_of(self, table: TableName) -> str | None:
        """Return the condition of the rows that a table's snapshot reads; None for all rows."""
        name = f"{table.schema}.{table.table}"
        found = (text for pattern, text in self.where.items() if matches([pattern], name))
        return next(found, None)

    @property
    def chunk_bytes(self) -> int:
        """The option chunk_mb in bytes."""
        return self.chunk_mb * 1_000_000

    @property
    def memory_bytes(self) -> int:
        """The option memory_mb in bytes."""
        return self.memory_mb * 1_000_000

    @property
    def reads_first(self) -> bool:
        """Whether a table without a checkpoint starts with a snapshot."""
        return self.mode is not SnapshotMode.NO_DATA

    @property
    def fills_gaps(self) -> bool:
        """Whether a table whose change rows are gone automatically gets a new snapshot."""
        return self.on_gap is OnGap.SNAPSHOT or self.mode is SnapshotMode.WHEN_NEEDED

    @model_validator(mode="after")
    def _gaps_are_as_the_mode_says(self) -> Self:
        stops = "on_gap" in self.model_fields_set and self.on_gap is OnGap.STOP
        if self.mode is SnapshotMode.WHEN_NEEDED and stops:
            raise ValueError(
                "mode: when_needed takes a snapshot after a gap, on_gap: stop does not. Fix: remove"
                " on_gap, or set mode: initial"
            )
        return self

    @model_validator(mode="after")
    def _chunk_fits(self) -> Self:
        if self.chunk_mb > self.memory_mb:
            raise ValueError(
                f"chunk_mb = {self.chunk_mb} is above memory_mb = {self.memory_mb}. Fix: lower"
                " chunk_mb or raise memory_mb"
            )
        return self
