"""What can go wrong while a server for a test is started or asked; each message says what to do."""

from pathlib import Path


class TestingError(Exception):
    """Base of every error of the packages for other people's tests."""

    # Its name begins like a test class; pytest must not collect it from a test module.
    __test__ = False


class NotStarted(TestingError):
    """Something was asked of a source or a pipeline that does not run."""


class CaptureTimeout(TestingError):
    """The capture process did not come to the end of the log in time."""


class LocalStackError(Exception):
    """Base of every error of servers on this machine; the message names the part and the fix."""


class DriverMissing(LocalStackError):
    """No Microsoft ODBC driver for SQL Server was found."""


class ProcessFailed(LocalStackError):
    """A process of ours ended, or was not ready within its time.

    Attributes:
        name: the part of the stack, as in "Kafka broker".
        log: the file that holds its output.
        log_tail: the last lines of that file.
    """

    def __init__(self, name: str, reason: str, log: Path, log_tail: str) -> None:
        """Composes the message from the part, the reason and the end of its log."""
        self.name = name
        self.log = log
        self.log_tail = log_tail
        shown = log_tail.strip() or "(the log is empty)"
        super().__init__(f"{name} {reason}. Its log {log} ends with:\n{shown}")
