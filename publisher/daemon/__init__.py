"""The conductor of the publisher: the only code in it that knows all of its rooms."""

from publisher.daemon.loop import run

__all__ = ["run"]
