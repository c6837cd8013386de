"""From topics to lake tables: progress-driven micro-batches of Spark.

:func:`run` is the sink itself, :func:`read` all tables of a lake as of one cut, :func:`history`
the validity intervals of a table's rows. They load Spark when they are first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace_sink.application import run
    from tailrace_sink.reader import history
    from tailrace_sink.reader import read_cut as read

__all__ = ["history", "read", "run"]


def __getattr__(name: str) -> Any:
    if name == "run":
        from tailrace_sink.application import run

        return run
    if name in __all__:
        from tailrace_sink import reader

        return reader.read_cut if name == "read" else reader.history
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
