"""Statements that leave the block around them, on their way out."""

from __future__ import annotations


class JumpSignal(Exception):
    """BREAK or CONTINUE on its way to its loop."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class ReturnSignal(Exception):
    """RETURN on its way out of its batch or procedure."""
