"""The embedded SQL Server in your own tests: no container engine, ready in a second.

:class:`EmulatedSqlServer` is the server as a process of its own; :class:`CdcSource` is what it and
any other SQL Server of a test can do. As fixtures:
``pytest_plugins = ["tailrace_emulator.testing.pytest_plugin"]``. The distribution's
extra ``testing`` brings the Microsoft ODBC driver.
"""

from tailrace_emulator.testing.emulated import EmulatedSqlServer
from tailrace_emulator.testing.errors import CaptureTimeout, NotStarted, TestingError
from tailrace_emulator.testing.source import CdcSource

__all__ = ["CaptureTimeout", "CdcSource", "EmulatedSqlServer", "NotStarted", "TestingError"]
