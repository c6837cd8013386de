"""From topics to lake tables: progress-driven micro-batches of Spark.

:func:`run` is the sink itself, :func:`read` reads all tables of a lake as of a cut, :func:`history`
the validity intervals of a table's rows, :func:`changes` every change of a table between two
points. They load Spark when they are first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace_sink.daemon.application import run
    from tailrace_sink.reading.changes import changes
    from tailrace_sink.reading.history import history
    from tailrace_sink.reading.reader import read

__all__ = ["changes", "history", "read", "run"]


def __getattr__(name: str) -> Any:
    if name == "run":
        from tailrace_sink.daemon.application import run

        return run
    if name == "changes":
        from tailrace_sink.reading.changes import changes

        return changes
    if name == "history":
        from tailrace_sink.reading.history import history

        return history
    if name == "read":
        from tailrace_sink.reading.reader import read

        return read
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
