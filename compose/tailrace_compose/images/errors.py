"""Errors of image builds; each message names the fix."""


class ImageBuildError(Exception):
    """Base of every error of ``make images``."""


class EngineUnavailable(ImageBuildError):
    """No container engine answers, or none of the installed clients can build."""


class BaseImageUnavailable(ImageBuildError):
    """The base image can neither be pulled nor built here."""


class BuildFailed(ImageBuildError):
    """An image could not be built; the message has the end of the builder's output."""
