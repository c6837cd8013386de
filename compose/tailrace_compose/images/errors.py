"""What can go wrong while images are built; each message says what to do about it."""


class ImageBuildError(Exception):
    """Base of every error of ``make images``."""


class EngineUnavailable(ImageBuildError):
    """No container engine answers, or none of the installed clients can build."""


class BaseImageUnavailable(ImageBuildError):
    """The base image can neither be pulled nor made here."""


class BuildFailed(ImageBuildError):
    """An image could not be built; the message has the end of the builder's output."""
