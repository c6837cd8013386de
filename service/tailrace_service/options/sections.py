"""What the options of both programs share: sections, secrets, selection of tables, error texts.

Publisher and sink read one file, so they agree on what is a typo, a secret or a table.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from tailrace_schemas.topics.name_patterns import matches_name
from tailrace_schemas.topics.topic_names import TableName

# Options whose value is never repeated in a message, with everything below them.
_SECRET: Final = frozenset(
    {"password", "extra", "token", "client_key_password", "odbc", "salt", "headers", "access_key"}
    | {"secret_key", "session_token", "credential"}
)
_WANTED: Final = {
    "model_type": "it is a section: write its options below it, each as name: value",
    "dict_type": "write what belongs to it below it, each as name: value",
    "list_type": "write a list, as in [one, two]",
}
"""By type of the problem, where pydantic speaks of Python."""


class Section(BaseModel):
    """Unknown options are errors (a typo must not be silence); values do not change later."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    removed: ClassVar[Mapping[str, str]] = {}
    """Options of earlier releases, each with a sentence that says what to use."""


class TableSelection(Section):
    """Tables that match include and do not match exclude."""

    include: list[str] = Field(
        default_factory=lambda: [r".*"],
        description="Regular expressions on schema.table, whole name, case-insensitive. An entry"
        " also selects the table that is spelled like it, whatever characters its name has.",
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


class SecretUnreadable(ValueError):
    """The file of a secret cannot be read; names option and file."""


def read_secret(option: str, file: Path) -> str:
    """The first line of the file of a secret, without the blanks around it.

    Raises:
        SecretUnreadable: it cannot be read, or is not text.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise SecretUnreadable(f"{option} {file}: it is not text") from error
    except OSError as error:
        raise SecretUnreadable(f"{option} {file}: {error.strerror}; make it readable") from error
    return lines[0].strip() if lines else ""


def problems(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """One sentence per wrong option: its path, its value unless it is secret, and what is right.

    Args:
        model: what the options were checked by; knows the names that a wrong one may mean.
    """
    return [_problem(detail, model) for detail in error.errors()]


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The question for a name that is nearly a known one; None if it is near none."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}?" if near else None


def check_patterns(patterns: Iterable[str]) -> None:
    """Check that texts are regular expressions.

    Raises:
        ValueError: names the first that is none.
    """
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(
                f"{pattern!r} is not a regular expression: {error}. Fix: write a backslash before"
                " each character that stands for itself"
            ) from error


def matches(patterns: Iterable[str], name: str) -> bool:
    """Whether one of the patterns matches a whole name, or is spelled like it."""
    return any(matches_name(pattern, name) for pattern in patterns)


def _section_at(model: type[BaseModel], path: Iterable[str]) -> type[BaseModel] | None:
    """The section of a path; None if it leads to none."""
    for part in path:
        field = model.model_fields.get(part)
        kinds = () if field is None else (field.annotation, *get_args(field.annotation))
        inner = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if not inner:
            return None
        model = inner[0]
    return model


def _problem(detail: Any, model: type[BaseModel]) -> str:
    path = [str(part) for part in detail["loc"]]
    option = ".".join(path) or "options"
    message = str(detail["msg"]).removeprefix("Value error, ")
    if detail["type"] == "missing":
        return f"{option} is missing: set it"
    if detail["type"] == "extra_forbidden":
        section = _section_at(model, path[:-1])
        removed = section.removed if section and issubclass(section, Section) else {}
        if path[-1] in removed:
            return f"{option} is not an option any more: {removed[path[-1]]}"
        near = did_you_mean(path[-1], () if section is None else section.model_fields)
        return f"{option} is not an option: {near or 'check its spelling'}"
    value = detail.get("input")
    message = _WANTED.get(detail["type"], message)
    if isinstance(value, dict | list) or _SECRET.intersection(path):
        return f"{option}: {message}"
    return f"{option} = {value!r}: {message}"
