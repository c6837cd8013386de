"""What can go wrong while a test's source or pipeline is made; each message says what to do."""


class TestingError(Exception):
    """Base of every error of ``tailrace.testing``."""

    # Its name begins like a test class; pytest must not collect it from a test module.
    __test__ = False


class NotStarted(TestingError):
    """Something was asked of a source or a pipeline that does not run."""


class CaptureTimeout(TestingError):
    """The capture process did not come to the end of the log in time."""
