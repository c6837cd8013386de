"""What a ``with`` block closes at its end."""

from __future__ import annotations

from typing import Protocol, Self


class Closing(Protocol):
    """Something to be closed, which a ``with`` block does."""

    def close(self) -> None:
        """Close it; once more does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
