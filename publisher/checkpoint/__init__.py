"""Reading back what was committed: the state a publisher goes on from."""

from publisher.checkpoint.reader import read_checkpoints

__all__ = ["read_checkpoints"]
