"""The script of questions: what Tailrace believes about SQL Server, and what follows otherwise.

``facts.sql`` is the file of docs/genuine. A question begins with comments: its number, whether it
only reads, the question, and its outcomes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SCRIPT: Final = Path(__file__).with_name("facts.sql")
_GO: Final = re.compile(r"(?m)^GO$")
_HEAD: Final = re.compile(r"(?m)^-- (T\d+)(, read-only)?: (.+)$")
_OUTCOME: Final = re.compile(r"(?m)^--   (.+)$")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and its batch.

    Attributes:
        fact: its number, which is the first column of its answer.
        outcomes: one line for each: what may come, and what follows.
    """

    fact: str
    text: str
    outcomes: tuple[str, ...]
    is_read_only: bool
    batch: str


def batches() -> list[str]:
    """The batches of the script, in their order."""
    return [batch for batch in _GO.split(SCRIPT.read_text(encoding="utf-8")) if batch.strip()]


def questions() -> Iterator[Question]:
    """The questions, in the order of the script."""
    for batch in batches():
        for head in _HEAD.finditer(batch):
            rest = batch[head.end() :]
            comments = re.match(r"(\n--   .+)*", rest)
            outcomes = _OUTCOME.findall(comments[0]) if comments else []
            yield Question(head[1], head[3], tuple(outcomes), head[2] is not None, batch)
