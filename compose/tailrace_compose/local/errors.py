"""What can go wrong while the local stack is prepared, started or watched."""

from pathlib import Path


class LocalStackError(Exception):
    """Base of every error of the local stack; the message names the part and the fix."""


class JavaMissing(LocalStackError):
    """No Java runtime that is new enough was found."""


class LockInvalid(LocalStackError):
    """`jars.lock` has a line that cannot be read, or has no hash for an artifact."""


class ArtifactUnavailable(LocalStackError):
    """An artifact of `jars.lock` could not be downloaded, or its bytes are not the locked ones."""


class DriverMissing(LocalStackError):
    """No Microsoft ODBC driver for SQL Server was found."""


class ProcessFailed(LocalStackError):
    """A process of the stack ended, or was not ready within its time.

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
