"""What all errors of the publisher say of themselves; those of its configuration and its start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tailrace_schemas.topics.topic_names import TableName


class PublisherError(Exception):
    """Base of all errors that the publisher raises on purpose.

    Attributes:
        retryable: whether waiting helps.
        of_one_table: whether it concerns one table alone when it comes while that one is handled.
        of_events: whether it is about events that cannot be published (``on_bad_event``).
        waited_for_s: seconds for which waiting may help; None for as long as it takes.
    """

    retryable: ClassVar[bool] = False
    of_events: ClassVar[bool] = False
    waited_for_s: ClassVar[float | None] = None
    of_one_table: ClassVar[bool] = True

    @property
    def may_heal(self) -> bool:
        """Whether waiting may help where the same configuration has worked before."""
        return self.retryable


class ConfigError(PublisherError):
    """The configuration is not usable; names every wrong option at once.

    Attributes:
        problems: one sentence per wrong option: option, value, bounds and fix.
    """

    of_one_table = False

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("configuration: " + "; ".join(self.problems))


class PreflightError(PublisherError):
    """The source is not ready to be published; names every problem at once.

    Attributes:
        problems: one sentence per problem, with the statement or grant that fixes it.
    """

    of_one_table = False

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("the source is not ready: " + "; ".join(self.problems))


class StartRefused(PublisherError):
    """The changes do not go back to where the configuration wants to begin, or on to there.

    Attributes:
        problems: one sentence per table or option, with the LSN that would do.
    """

    of_one_table = False

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("publisher.start: " + "; ".join(self.problems))


class SnapshotsIncomplete(PublisherError):
    """Not every table is out where only snapshots were asked for (snapshot.mode: initial_only).

    Attributes:
        tables: those that were stopped; the log and their checkpoints say what for.
    """

    of_one_table = False

    def __init__(self, tables: Sequence[TableName]) -> None:
        self.tables = tuple(tables)
        super().__init__(
            "the snapshots are out but for tables that were stopped: "
            + ", ".join(map(str, self.tables))
            + "; mend their causes (table_stopped in the log) and ask for them: tailrace snapshot"
        )
