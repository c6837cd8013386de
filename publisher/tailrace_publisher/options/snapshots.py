"""The options of snapshots: unit, default, bounds, and what happens at both ends."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from tailrace_publisher.options.sql_condition import check_condition
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.options.sections import Section, check_patterns, matches

Condition = Annotated[str, Field(max_length=4_000)]


class SnapshotMode(StrEnum):
    """What to publish of a table that has no checkpoint yet."""

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
    """What becomes of a table whose change rows were cleaned up before they were read."""

    STOP = "stop"
    SNAPSHOT = "snapshot"


class SnapshotConfig(Section):
    """The first reading of a table that has no checkpoint."""

    mode: SnapshotMode = Field(
        default=SnapshotMode.INITIAL,
        description="initial (default) publishes every row once as op r, and the changes that"
        " follow; initial_only does so too, and ends when all tables are out (0; 1 where one was"
        " stopped), with a checkpoint from which any other mode goes on; no_data starts with the"
        " changes from now on; when_needed is initial with on_gap: snapshot, and takes a snapshot"
        " of tables that publisher.start comes too late for; always takes a new snapshot of every"
        " table at every start of the process, beside the changes, and resumes one that was not"
        " out.",
    )
    on_gap: OnGap = Field(
        default=OnGap.STOP,
        description="What becomes of a table whose change rows were gone before they were read,"
        " by cleanup or because its older capture instance was disabled too early, or whose rows"
        " changed without change rows, by SWITCH or ALTER COLUMN: stop (default)"
        " leaves it out, loudly, until an operator asks for it (tailrace snapshot); snapshot takes"
        " a new snapshot of it at once. In the lake a new snapshot replaces the table; subscribers"
        " of its topic miss the changes that are gone.",
    )
    chunk_rows: int = Field(
        default=50_000,
        ge=1,
        le=10_000_000,
        description="Rows of a chunk at most, which is published at once when the capture job has"
        " passed it; 1 to 10000000, default 50000. Chunks wait side by side, so few rows cost"
        " round trips only; many hold up the changes of other tables while they are sent.",
    )
    chunk_mb: int = Field(
        default=32,
        ge=1,
        le=4096,
        description="Megabytes of a chunk at most, whichever comes first: wide rows make small"
        " chunks; 1 to 4096, default 32, not above memory_mb. A chunk has at least one row. The"
        " keys that change while chunks of a table wait may take as much; with more of them the"
        " chunks are read again.",
    )
    memory_mb: int = Field(
        default=256,
        ge=1,
        le=1_000_000,
        description="Megabytes for all chunks that are read and wait for the capture job; 1 to"
        " 1000000, default 256. No further one is read meanwhile, so too low makes a snapshot wait"
        " for the capture job's polling interval (5 s by default) again and again. A table without"
        " a primary key and without a unique index over non-null columns cannot be cut into"
        " chunks: it is read at once, one such table at a time, and stops, alone, if it is larger.",
    )
    tables_at_once: int = Field(
        default=2,
        ge=1,
        le=32,
        description="Tables that are read at the same time, each over a connection of its own; 1 to"
        " 32, default 2. More load the source, and one table whose rows are locked holds up the"
        " others less.",
    )
    lock_timeout_s: float = Field(
        default=5.0,
        ge=0.1,
        le=300.0,
        description="Seconds to wait for rows that a writer has locked (SET LOCK_TIMEOUT); 0.1 to"
        " 300, default 5. A statement is sent three times; then its table is tried again later,"
        " which is logged once. The stream and the other tables continue. Too low"
        " gives up at every short transaction, too high delays a stop and the table that is next.",
    )
    isolation: SnapshotIsolation = Field(
        default=SnapshotIsolation.AUTO,
        description="auto (default): where the database has ALLOW_SNAPSHOT_ISOLATION ON, rows are"
        " read under SNAPSHOT isolation, each statement by itself, and no lock is waited for;"
        " read_committed: always under the connection's default.",
    )
    where: dict[str, Condition] = Field(
        default_factory=dict,
        description="Pattern on schema.table (regular expression, whole name, case-insensitive) to"
        " the condition, in T-SQL, of the rows that its snapshots read; the first pattern that"
        " matches counts, default: all rows. At most 4000 characters, without comments, ; and ?"
        " outside of texts. A start has the server check it. Changes are not filtered: a row that"
        " was left out arrives with its next change, an update as a row that a reader does not"
        " have; it may lack large values that it left alone (the lake has NULL there then). A"
        " snapshot is all of its table: with the next one, rows that do not match any more are gone"
        " from the lake. Another condition begins a snapshot that is under way again, and what is"
        " out by then stays. A statement reads until it has its rows: where few match, and no index"
        " helps, source.query_timeout_s may be too short for it.",
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
        """The condition of the rows that a snapshot of a table reads; None for all of them."""
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
        """Whether a table without a checkpoint begins with a snapshot."""
        return self.mode is not SnapshotMode.NO_DATA

    @property
    def fills_gaps(self) -> bool:
        """Whether a table whose change rows are gone gets a new snapshot by itself."""
        return self.on_gap is OnGap.SNAPSHOT or self.mode is SnapshotMode.WHEN_NEEDED

    @model_validator(mode="after")
    def _gaps_are_as_the_mode_says(self) -> Self:
        stops = "on_gap" in self.model_fields_set and self.on_gap is OnGap.STOP
        if self.mode is SnapshotMode.WHEN_NEEDED and stops:
            raise ValueError(
                "mode: when_needed takes a snapshot after a gap, on_gap: stop does not: leave"
                " on_gap out, or take mode: initial"
            )
        return self

    @model_validator(mode="after")
    def _chunk_fits(self) -> Self:
        if self.chunk_mb > self.memory_mb:
            raise ValueError(
                f"chunk_mb = {self.chunk_mb} is above memory_mb = {self.memory_mb}: give it at most"
                " that"
            )
        return self
