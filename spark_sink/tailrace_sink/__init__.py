"""The sink and its readers: from topics to lake tables.

- :func:`run` runs the sink.
- :func:`read` reads all tables of a lake as of one cut.
- :func:`history` returns the validity intervals of a table's rows.
- :func:`changes` returns every change of a table between two points.

Spark is loaded at the first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace_sink.daemon.start import run
    from tailrace_sink.reading.changes import changes
    from tailrace_sink.reading.history import history
    from tailrace_sink.reading.reader import read

__all__ = ["changes", "history", "read", "run"]


def __getattr__(name: str) -> Any:
    if name == "run":
        from tailrace_sink.daemon.start import run

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
