"""Reading back what was committed: the state from which a publisher resumes."""

from tailrace_publisher.checkpoint.reader import Stored, read_checkpoints
from tailrace_publisher.checkpoint.watermarks import high_watermarks

__all__ = ["Stored", "high_watermarks", "read_checkpoints"]
