"""Errors of the object store that holds the lake."""

from __future__ import annotations

from tailrace_sink.errors.base import SinkError


class StoreUnusable(SinkError):
    """The lake's store refuses the credentials, or has no such bucket."""

    def __init__(self, lake: str, problem: str, fix: str) -> None:
        self.problem = problem
        self.fix = fix
        super().__init__(f"lake {lake}: {problem}. Fix: {fix}")

    @classmethod
    def keys(cls, lake: str, endpoint: str | None, reason: str) -> StoreUnusable:
        """Create the error of a store that refuses the credentials of a request."""
        return cls(
            lake,
            f"{_named(endpoint)} refused the request ({reason})",
            "check sink.s3.access_key and sink.s3.secret_key or their files, or sink.s3.role, and"
            " that they may put, get, list and delete objects there",
        )

    @classmethod
    def without_keys(cls, lake: str) -> StoreUnusable:
        """Create the error of a lake for which no credentials were found."""
        return cls(
            lake,
            "no credentials were found in the options, the environment and the instance",
            "set sink.s3.access_key and sink.s3.secret_key or their files, or give this process"
            " credentials that AWS's libraries find",
        )

    @classmethod
    def bucket(cls, lake: str, endpoint: str | None) -> StoreUnusable:
        """Create the error of a lake whose bucket does not exist."""
        name = lake.partition("://")[2].partition("/")[0]
        return cls(
            lake,
            f"{_named(endpoint)} has no bucket {name}",
            "create the bucket, or correct sink.lake or sink.s3.endpoint",
        )


class StoreUnavailable(StoreUnusable):
    """The lake's store does not answer, or it is too busy to; retried a bounded number of times."""

    retryable = True

    def __init__(self, lake: str, endpoint: str | None, reason: str) -> None:
        super().__init__(
            lake,
            f"{_named(endpoint)} does not answer ({reason})",
            "check sink.s3.endpoint, and that the store runs and can be reached from here",
        )


class DiskUnwritable(StoreUnusable):
    """The disk of a lake in a local folder is full or read-only; waited for, however long."""

    retryable = True

    def __init__(self, lake: str, reason: str) -> None:
        super().__init__(
            lake,
            f"its disk takes no file ({reason})",
            "free some space, raise the quota or mount it for writing; then the sink continues",
        )


class StoreUnsafe(SinkError):
    """The lake's store lets two sinks commit the same version of a table."""

    effect = "of two sinks, one could replace a commit of the other"

    def __init__(self, lake: str, problem: str, fix: str) -> None:
        self.problem = problem
        self.fix = fix
        super().__init__(f"lake {lake}: {problem}; {self.effect}. Fix: {fix}")

    @classmethod
    def accepts_a_second_create(cls, lake: str, endpoint: str | None) -> StoreUnsafe:
        """Create the error of a store that ignores the condition of a request.

        Args:
            endpoint: of the store; None for that of AWS.
        """
        return cls(
            lake,
            f"{_named(endpoint)} accepted a second create of one object, although the request had"
            " If-None-Match: *",
            "use a release of the store that honours it (docs/object-stores.md), or a log store"
            " that locks elsewhere: sink.spark.spark.delta.logStore.s3a.impl",
        )


def _named(endpoint: str | None) -> str:
    return f"the store {endpoint or 'of AWS'}"
