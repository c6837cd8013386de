"""Change data capture for your own integration tests.

:class:`EmulatedSqlServer` is the embedded SQL Server as a process: no container engine needed. It
is a context manager; what it starts is gone when the block ends, after Ctrl-C too.
``pytest_plugins = ["tailrace.testing.pytest_plugin"]`` makes it a fixture.
"""

from tailrace.testing.emulated import EmulatedSqlServer
from tailrace.testing.errors import TestingError
from tailrace.testing.source import CdcSource

__all__ = [
    "CdcSource",
    "EmulatedSqlServer",
    "TestingError",
]
