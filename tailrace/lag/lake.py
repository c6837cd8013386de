"""How far the lake is, read without a JVM: its log, and its tables."""

from __future__ import annotations

from tailrace.lag.stages import Stage, StageUnavailable, tables_stage
from tailrace.reading.lake import CommitRows, newest_logged, reading_options, unreadable
from tailrace_sink.options.config import SinkConfig


class LakeStages:
    """Reads the lake's commits, again and again; what did not change is not read again.

    Args:
        config: says where the lake is.
    """

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._options = reading_options(config)
        self._commits = CommitRows.of(config)

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
            raise StageUnavailable(unreadable(self._config, "log", path, error)) from error
        return None if lsn is None else Stage(lsn, None)

    def tables(self) -> Stage | None:
        """The tables' newest cut.

        Raises:
            StageUnavailable: it cannot be read.
        """
        return tables_stage(self._commits, self._config)
