"""What can go wrong while a test's source or pipeline starts; each message has the fix."""

from tailrace_emulator.testing.errors import TestingError


class EngineUnavailable(TestingError):
    """No container engine answers, or it refuses us."""


class ImageMissing(TestingError):
    """The engine has no such image and cannot pull it."""


class EulaNotAccepted(TestingError):
    """SQL Server's terms were not accepted."""


class PasswordRefused(TestingError):
    """The password is not one that SQL Server takes for ``sa``."""


class PortTaken(TestingError):
    """Something else listens on a port that was asked for."""


class ContainerFailed(TestingError):
    """A container ended, or was not healthy in time; the message has the end of its log."""


class SinkNotInstalled(TestingError):
    """A lake is wanted and Spark is not installed; the message names the extra."""


class PipelineFailed(TestingError):
    """Publisher or sink ended by themselves; the message has the end of the log."""


class PipelineTimeout(TestingError):
    """Topics or lake did not reach the source's state in time."""
