"""Reading back what was committed: the state a publisher goes on from."""

from publisher.checkpoint.reader import read_checkpoints
from publisher.checkpoint.watermarks import high_watermarks

__all__ = ["high_watermarks", "read_checkpoints"]
