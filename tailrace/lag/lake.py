"""How far the lake is, read without a JVM: its log, and its tables."""

from __future__ import annotations

from tailrace.lag.stages import Stage, StageUnavailable, tables_stage
from tailrace.reading.lake import CommitRows, delta_problem, newest_logged
from tailrace_sink.options.config import SinkConfig


class LakeStages:
    """Reads the lake's commits, again and again; what did not change is not read again.

    Args:
        config: says where the lake is.
    """

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._options = config.storage_options()
        self._commits = CommitRows(config.commits_path, self._options)

    def log(self) -> Stage | None:
        """The log's newest cut; its commit time is not in the log's history.

        Raises:
            StageUnavailable: it cannot be read.
        """
        from deltalake.exceptions import DeltaError

        path = self._config.log_path
        try:
            lsn = newest_logged(path, self._options)
        except (DeltaError, OSError) as error:
            told = delta_problem(error)
            raise StageUnavailable(f"the lake's log {path} cannot be read ({told})") from error
        return None if lsn is None else Stage(lsn, None)

    def tables(self) -> Stage | None:
        """The tables' newest cut.

        Raises:
            StageUnavailable: it cannot be read.
        """
        return tables_stage(self._commits, self._config.commits_path)
