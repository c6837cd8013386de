"""What the doctor says: a judgement, why it matters, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How a part was found."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Part(StrEnum):
    """Where on a row's way something was looked at, in this order."""

    SERVER = "server"
    CAPTURE = "capture"
    TABLES = "tables"
    LOGIN = "login"
    KAFKA = "kafka"
    REGISTRY = "registry"
    LAKE = "lake"
    CLOCKS = "clocks"
    TRACES = "traces"


@dataclass(frozen=True, slots=True)
class Fix:
    """What to do, as text to paste.

    Attributes:
        text: T-SQL, a command, or an option.
        is_safe: whether ``--fix`` may run it as T-SQL in the source's database: it can be taken
            back, changes no data and no setting, and costs nothing that a customer would notice.
    """

    text: str
    is_safe: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        level: the judgement.
        part: where.
        subject: what was looked at: "SQL Server Agent", "dbo.orders".
        text: what was found, in one sentence.
        why: why it matters; empty where all is well.
        fix: what to do; None where all is well, or where only a person can decide.
    """

    level: Level
    part: Part
    subject: str
    text: str
    why: str = ""
    fix: Fix | None = None


@dataclass(frozen=True, slots=True)
class Judge:
    """Makes the findings of one part.

    Attributes:
        part: the part.
    """

    part: Part

    def ok(self, subject: str, text: str) -> Finding:
        """All is well."""
        return Finding(Level.OK, self.part, subject, text)

    def warning(self, subject: str, text: str, why: str, fix: Fix | None = None) -> Finding:
        """It works, and may hurt later."""
        return Finding(Level.WARNING, self.part, subject, text, why, fix)

    def problem(self, subject: str, text: str, why: str, fix: Fix | None = None) -> Finding:
        """It does not work, or loses something."""
        return Finding(Level.PROBLEM, self.part, subject, text, why, fix)


def worst(findings: Iterable[Finding]) -> Level:
    """The gravest judgement; ok of none."""
    order = list(Level)
    return max((finding.level for finding in findings), key=order.index, default=Level.OK)
