"""What can go wrong while the local stack is prepared, started or watched."""

from tailrace_emulator.testing.errors import LocalStackError


class JavaMissing(LocalStackError):
    """No Java runtime that is new enough was found."""


class LockInvalid(LocalStackError):
    """`jars.lock` has a line that cannot be read, or has no hash for an artifact."""


class ArtifactUnavailable(LocalStackError):
    """An artifact of `jars.lock` could not be downloaded, or its bytes are not the locked ones."""


class StoreMissing(LocalStackError):
    """The program of the object store is not installed."""
