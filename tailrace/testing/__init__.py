"""Change data capture for your own integration tests: sources, and the pipeline after them.

* :class:`EmulatedSqlServer` is the embedded SQL Server as a process: no container engine needed.
* :class:`SqlServerCdcContainer` is a genuine SQL Server with SQL Server Agent, in a container.
* :class:`TailracePipeline` carries a source's changes to topics and a lake, for a test to look at.

All three are context managers; what they start is gone when the block ends, after Ctrl-C too.
``pytest_plugins = ["tailrace.testing.pytest_plugin"]`` makes them fixtures.
"""

from typing import TYPE_CHECKING, Any

from tailrace_emulator.testing.emulated import EmulatedSqlServer
from tailrace_emulator.testing.errors import TestingError
from tailrace_emulator.testing.source import CdcSource

if TYPE_CHECKING:
    from tailrace.testing.pipeline import TailracePipeline
    from tailrace.testing.sqlserver import SqlServerCdcContainer

__all__ = [
    "CdcSource",
    "EmulatedSqlServer",
    "SqlServerCdcContainer",
    "TailracePipeline",
    "TestingError",
]


def __getattr__(name: str) -> Any:
    """Loads what needs an optional package (testcontainers) or a heavy one only when it is used."""
    if name == "SqlServerCdcContainer":
        from tailrace.testing.sqlserver import SqlServerCdcContainer

        return SqlServerCdcContainer
    if name == "TailracePipeline":
        from tailrace.testing.pipeline import TailracePipeline

        return TailracePipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
