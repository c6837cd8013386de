"""Why a subscription cannot begin or continue."""

from __future__ import annotations

from typing import Self

from tailrace.reading import progress


class SubscribeError(Exception):
    """A subscription cannot begin or continue.

    Attributes:
        retryable: whether the same call may succeed later without a change of yours.
    """

    retryable = False


class BrokersUnavailable(SubscribeError):
    """No broker answers, or none that holds the partition."""

    retryable = True


class BrokersRefused(SubscribeError):
    """The brokers refuse: authentication, authorization, or a deleted topic."""


class NothingPublished(SubscribeError):
    """The prefix has no progress topic, so no publisher has started under it."""

    retryable = True


class UnknownTable(SubscribeError):
    """A table has no topic under the prefix, or its name fits several."""

    retryable = True


class UnknownColumn(SubscribeError):
    """A chosen column is not in the table's schema."""


class RowTypeMismatch(SubscribeError):
    """A row does not fit the dataclass that was given for its table."""


class ArgumentRefused(SubscribeError, ValueError):
    """An argument that no subscription can have, or a call that needs another one."""


class OptionRefused(SubscribeError):
    """An option of the Kafka client that would break the order or show aborted events."""


class PlaceUnknown(SubscribeError):
    """A text is no bookmark, or it belongs to another prefix or to topics that are gone."""


class LsnNotRetained(SubscribeError):
    """Retention has removed progress records or events of the place to begin at."""


class SnapshotNotRetained(SubscribeError):
    """The topics no longer hold a whole snapshot of a table."""


class EventsRemoved(SubscribeError):
    """A topic lacks events that the ledger counts: retention, compaction, or a deleted topic."""


class ProgressGap(SubscribeError):
    """The progress records do not follow each other: records between two of them are gone."""


class SourceWentBack(SubscribeError):
    """The closed LSN went back: the source was restored or replaced."""


class DividedIntoShards(progress.DividedIntoShards, SubscribeError):
    """An earlier release divided the database into shards; this one reads one stream."""


class TransactionTooLarge(SubscribeError):
    """A source transaction has more changes than one object may hold."""


class NotAnEvent(SubscribeError):
    """A record that the ledger counts is no event of Tailrace, or of a newer form."""

    @classmethod
    def at(cls, where: tuple[str, int], offset: int, error: Exception) -> Self:
        """The error of a record in a topic and partition."""
        return cls(
            f"topic {where[0]} partition {where[1]} offset {offset} holds no event that this"
            f" release reads ({type(error).__name__}: {error}). Fix: update tailrace[client] to"
            " the publisher's release; revoke Write from other producers"
        )
