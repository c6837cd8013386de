"""What all errors of the publisher have in common, and errors of its configuration and start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tailrace_schemas.topics.topic_names import TableName


class PublisherError(Exception):
    """Base of all errors that the publisher raises on purpose.

    Attributes:
        retryable: whether the daemon waits and retries.
        of_one_table: whether it stops only the table that was being handled.
        of_events: whether events cannot be published. The option ``on_bad_event`` then decides.
        waited_for_s: seconds for which waiting may help; None if there is no limit.
    """

    retryable: ClassVar[bool] = False
    of_events: ClassVar[bool] = False
    waited_for_s: ClassVar[float | None] = None
    of_one_table: ClassVar[bool] = True

    @property
    def may_heal(self) -> bool:
        """Whether waiting may help if the same configuration has worked before."""
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


class ClientUnusable(ConfigError):
    """The Kafka client cannot be created by its options, or by the files that they name.

    At a first start the options are wrong. Later a certificate or key may be in the middle of its
    replacement.
    """

    @property
    def may_heal(self) -> bool:
        """Whether waiting may help if the same configuration has worked before: always."""
        return True


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
    """The change tables do not reach the LSN at which the configuration wants to start.

    Attributes:
        problems: one sentence per table or option, with an LSN that would do.
    """

    of_one_table = False

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("publisher.start: " + "; ".join(self.problems))


class SnapshotsIncomplete(PublisherError):
    """Some tables were stopped before their snapshot ended (snapshot.mode: initial_only).

    Attributes:
        tables: the stopped tables. The log and their checkpoints have the reasons.
    """

    of_one_table = False

    def __init__(self, tables: Sequence[TableName]) -> None:
        self.tables = tuple(tables)
        super().__init__(
            "the snapshots are published except of stopped tables: "
            + ", ".join(map(str, self.tables))
            + ". Fix: remove the causes (table_stopped in the log) and run tailrace snapshot"
        )
