"""What the options of both programs share: sections, registry, selection of tables, error texts.

Publisher and sink read one file. They must not differ in what they call a typo, a secret or a
table, so this is part of the contract, like the names of topics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from tailrace_schemas.topics import TableName

# Options whose value is never repeated in a message, with everything below them.
_SECRET: Final = frozenset({"password", "extra", "salt"})


class Section(BaseModel):
    """Unknown options are errors (a typo must not be silence); values do not change later."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RegistryConfig(Section):
    """The schema registry with Confluent's REST API."""

    url: str = Field(pattern=r"^https?://", description="Base address, e.g. http://host:8081.")
    timeout_s: float = Field(
        default=10.0, ge=0.1, le=300.0, description="Seconds per request; 0.1 to 300, default 10."
    )


class TableSelection(Section):
    """Tables that match include and do not match exclude."""

    include: list[str] = Field(
        default_factory=lambda: [r".*"],
        description="Regular expressions on schema.table, whole name, case-insensitive; default"
        " every table.",
    )
    exclude: list[str] = Field(
        default_factory=list, description="The same; takes precedence over include."
    )

    @field_validator("include", "exclude")
    @classmethod
    def _compiles(cls, patterns: list[str]) -> list[str]:
        check_patterns(patterns)
        return patterns

    def selects(self, table: TableName) -> bool:
        """Whether the table matches."""
        name = f"{table.schema}.{table.table}"
        return matches(self.include, name) and not matches(self.exclude, name)


def leave_alone(extra: dict[str, SecretStr], taken: Iterable[str], why: str) -> None:
    """Check that further Kafka options leave alone what a program sets itself.

    Args:
        extra: option names and values.
        taken: names that may not be given.
        why: the end of the message: what rests on them.

    Raises:
        ValueError: names the options to remove.
    """
    both = sorted(extra.keys() & set(taken))
    if both:
        raise ValueError(f"remove {', '.join(both)}: {why}")


def problems(error: ValidationError) -> list[str]:
    """One sentence per wrong option: its path, its value unless it is secret, and what is right."""
    return [_problem(detail) for detail in error.errors()]


def check_patterns(patterns: Iterable[str]) -> None:
    """Check that texts are regular expressions.

    Raises:
        ValueError: names the first that is none.
    """
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error


def matches(patterns: Iterable[str], name: str) -> bool:
    """Whether one of the patterns matches a whole name, in any case of its letters."""
    return any(re.fullmatch(pattern, name, re.IGNORECASE) for pattern in patterns)


def _problem(detail: Any) -> str:
    path = [str(part) for part in detail["loc"]]
    option = ".".join(path) or "options"
    message = str(detail["msg"]).removeprefix("Value error, ")
    if detail["type"] == "missing":
        return f"{option} is missing: set it"
    if detail["type"] == "extra_forbidden":
        return f"{option} is not an option: check its spelling"
    value = detail.get("input")
    if isinstance(value, dict | list) or _SECRET.intersection(path):
        return f"{option}: {message}"
    return f"{option} = {value!r}: {message}"
