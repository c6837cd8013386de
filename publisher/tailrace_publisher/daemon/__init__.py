"""The conductor of the publisher: the only code in it that knows all of its rooms."""

from tailrace_publisher.daemon.process.databases import run_databases
from tailrace_publisher.daemon.process.loop import run

__all__ = ["run", "run_databases"]
