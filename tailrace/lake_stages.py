"""How far the lake is, read without a JVM: its log, and its tables."""

from __future__ import annotations

from tailrace.lake import CommitRows, newest_logged
from tailrace.status import Stage, StageUnavailable
from tailrace_sink.config import SinkConfig


class LakeStages:
    """Reads the lake's commits, again and again; what did not change is not read again.

    Args:
        config: says where the lake is.
    """

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._commits = CommitRows(config.commits_path)

    def log(self) -> Stage | None:
        """The log's newest cut; its commit time is not in the log's history.

        Raises:
            StageUnavailable: it cannot be read.
        """
        from deltalake.exceptions import DeltaError

        path = self._config.log_path
        try:
            lsn = newest_logged(path)
        except (DeltaError, OSError) as error:
            raise StageUnavailable(f"the lake's log {path} cannot be read ({error})") from error
        return None if lsn is None else Stage(lsn, None)

    def tables(self) -> Stage | None:
        """The tables' newest cut.

        Raises:
            StageUnavailable: it cannot be read.
        """
        from deltalake.exceptions import DeltaError

        path = self._config.commits_path
        try:
            rows = self._commits.read()
        except (DeltaError, OSError) as error:
            raise StageUnavailable(
                f"the lake's commit table {path} cannot be read ({error}): check sink.lake and the"
                " permissions on it"
            ) from error
        if not rows:
            return None
        committed = rows[-1].closed_commit_time
        return Stage(
            rows[-1].closed_lsn,
            None if committed is None else round(committed.timestamp() * 1000),
            stopped=rows[-1].stopped,
            tables=frozenset(rows[-1].tables),
        )
