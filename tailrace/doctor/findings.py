"""What the doctor says: a judgement, why it matters, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tailrace_publisher.deliver.topic_settings import alter_command


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
    RUNNING = "running"
    CLOCKS = "clocks"
    TRACES = "traces"


@dataclass(frozen=True, slots=True)
class Fix:
    """What to do, as text to paste.

    Attributes:
        text: T-SQL, a command, or an option.
        is_safe: whether ``--fix`` may run it: it can be taken back, changes no data and costs
            nothing that a customer would notice. It is T-SQL of the source's database, unless it
            changes a topic.
        topic: the topic whose settings it changes; None if it does not.
        settings: the topic's new settings.
    """

    text: str
    is_safe: bool = False
    topic: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def topic_fix(topic: str, settings: Mapping[str, str], *, is_safe: bool = False) -> Fix:
    """Describe a change of a topic's settings."""
    return Fix(alter_command(topic, settings), is_safe, topic, settings)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
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
    """Makes the findings of one part."""

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
