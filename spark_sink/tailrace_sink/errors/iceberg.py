"""Errors of Iceberg's catalog, and of those who also write to its tables."""

from __future__ import annotations

from tailrace_sink.errors.base import SinkError, TableError


class ForeignCommit(SinkError):
    """Somebody else committed to the branch of a staged batch; nothing was published.

    The batch is staged again.
    """

    retryable = True

    def __init__(self, table: str, branch: str, snapshot: int, operation: str) -> None:
        self.table = table
        self.branch = branch
        self.snapshot = snapshot
        super().__init__(
            f"table {table}, branch {branch}: snapshot {snapshot} ({operation}) was committed by"
            " somebody else while the batch was staged, so no table of the cut was published. Fix:"
            " let only the sink write to the branch tailrace of the table"
        )


class CatalogUnusable(SinkError):
    """The catalog refuses the credentials, or lacks what the sink names."""

    def __init__(self, catalog: str, problem: str, fix: str) -> None:
        self.problem = problem
        self.fix = fix
        super().__init__(f"catalog {catalog}: {problem}. Fix: {fix}")


class CatalogUnavailable(CatalogUnusable):
    """The catalog does not answer; retried a bounded number of times."""

    retryable = True

    def __init__(self, catalog: str, step: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            catalog,
            f"no answer to {step} ({reason})",
            "check the address of the catalog, and that it runs and can be reached from here",
        )


class CatalogUnsafe(CatalogUnusable):
    """The catalog has no commit of several tables that is all or nothing."""

    def __init__(self, catalog: str, problem: str) -> None:
        super().__init__(
            catalog,
            f"{problem}, so readers of the tables may see some of a cut and not the rest",
            "use a catalog with atomic multi-table commits, for instance Polaris or Lakekeeper, or"
            " accept that for moments with commits: each_table among the catalog's options;"
            " read().as_of() stays exact",
        )


class SnapshotExpired(TableError):
    """A lake table in Iceberg no longer has the snapshot of a cut."""

    def __init__(self, table: str, snapshot: int) -> None:
        self.table = table
        self.snapshot = snapshot
        super().__init__(
            f"table {table} has no snapshot {snapshot}: expire_snapshots removed it, or the table"
            " was dropped. Fix: read a later cut; let expire_snapshots keep snapshots for as long"
            " as sink.retention.days"
        )
