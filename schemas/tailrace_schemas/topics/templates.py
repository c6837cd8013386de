"""Names of data topics by templates of the user's, and back from a name to its table.

A template goes for the tables that its pattern matches. Its text is taken as it is, but for
``{prefix}``, ``{database}``, ``{schema}`` and ``{table}``, whose values are escaped as in names by
default (:func:`tailrace_schemas.topics.escaped_names.topic_part`). Readers find a topic's table by
its name alone, so a template contains schema and table, unless its pattern does.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass, field
from typing import Final

from tailrace_schemas.topics.escaped_names import topic_part, unescape
from tailrace_schemas.topics.name_patterns import matches_name

PLACEHOLDERS: Final = ("prefix", "database", "schema", "table")

_NAME: Final = r"[\w$#@ -]+"
_TABLE: Final = re.compile(rf"({_NAME})\\?\.({_NAME})")
_SCHEMA: Final = re.compile(rf"({_NAME})\\\.(.+)", re.DOTALL)
_TEXT: Final = re.compile(r"[A-Za-z0-9._-]*")
_FORMATTER: Final = string.Formatter()
Part = tuple[str, str | None]
"""Text, and the placeholder after it."""


def is_plain_name(pattern: str) -> bool:
    """Whether a pattern on schema.table is the name of one table."""
    return _TABLE.fullmatch(pattern) is not None


@dataclass(frozen=True, slots=True)
class TopicTemplate:
    """The names of some tables' topics.

    Attributes:
        pattern: regular expression on schema.table: whole name, any case.

    Raises:
        ValueError: the pattern is no regular expression. Or the template has an unknown
            placeholder, a character that topics cannot have, no prefix, or does not determine the
            table.
    """

    pattern: str
    template: str
    _parts: tuple[Part, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check both."""
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"{self.pattern!r} is not a regular expression: {error}") from error
        object.__setattr__(self, "_parts", _parts(self.template))
        self._check()

    def matches(self, schema: str, table: str) -> bool:
        """Whether it goes for a table."""
        return matches_name(self.pattern, f"{schema}.{table}")

    def topic(self, prefix: str, database: str, schema: str, table: str) -> str:
        """The name of a table's topic, whatever its length."""
        parts = zip(PLACEHOLDERS[1:], map(topic_part, (database, schema, table)), strict=True)
        values = {"prefix": prefix, **dict(parts)}
        return "".join(text + (values[name] if name else "") for text, name in self._parts)

    def table(self, prefix: str, database: str, topic: str) -> tuple[str, str, str] | None:
        """Database, schema and table that a topic may be of; None where it is not of this template.

        Args:
            database: the one that is meant if the template has none.
        """
        known = {"prefix": re.escape(prefix)}
        found = re.fullmatch(
            "".join(
                re.escape(text) + (known.get(name, f"(?P<{name}>.+?)") if name else "")
                for text, name in self._parts
            ),
            topic,
        )
        if found is None:
            return None
        given = {"database": database, **self._said_by_pattern()}
        given |= {name: unescape(value) for name, value in found.groupdict().items()}
        schema, table = given["schema"], given["table"]
        return (given["database"], schema, table) if self.matches(schema, table) else None

    def _said_by_pattern(self) -> dict[str, str]:
        """Schema, or schema and table, of every name that the pattern matches."""
        if (table := _TABLE.fullmatch(self.pattern)) is not None:
            return {"schema": table[1], "table": table[2]}
        schema = _SCHEMA.fullmatch(self.pattern)
        return {} if schema is None or _has_choices(schema[2]) else {"schema": schema[1]}

    def _check(self) -> None:
        what = f"template {self.template!r} of {self.pattern!r}"
        names = [name for _, name in self._parts if name]
        for name in names:
            if name not in PLACEHOLDERS:
                known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
                raise ValueError(f"{what}: {{{name}}} is no placeholder; there are {known}")
            if names.count(name) > 1:
                raise ValueError(f"{what}: {{{name}}} is there twice")
        for text, _ in self._parts:
            if not _TEXT.fullmatch(text):
                raise ValueError(
                    f"{what}: a topic's name has letters, digits, '.', '_' and '-' only"
                )
        following = [text for text, _ in self._parts[1:]]
        if (
            self._parts[0] != ("", "prefix")
            or not following[:1]
            or following[0][:1] not in {*"._-"}
        ):
            raise ValueError(
                f"{what}: begin with {{prefix}} and one of '.', '_' and '-': by it topics of"
                " publishers are distinguished, and access to them is granted"
            )
        if "" in following[: len(names) - 1]:
            raise ValueError(f"{what}: put text between its placeholders, '.' at best")
        missing = [n for n in PLACEHOLDERS[2:] if n not in {*names, *self._said_by_pattern()}]
        if missing:
            raise ValueError(
                f"{what}: {{{missing[0]}}} is missing: a topic holds one table, and its name says"
                " which, unless the pattern is a table's name, or begins with a schema's and '\\.'"
            )


def _parts(template: str) -> tuple[Part, ...]:
    try:
        found = list(_FORMATTER.parse(template))
    except ValueError as error:
        raise ValueError(f"template {template!r}: {error}; a placeholder is {{table}}") from error
    for _, name, form, conversion in found:
        if form or conversion or name == "":
            raise ValueError(f"template {template!r}: a placeholder is a name in braces: {{table}}")
    return tuple((text, name) for text, name, _, _ in found) or (("", None),)


def _has_choices(pattern: str) -> bool:
    """Whether a regular expression has choices that are in no parentheses."""
    depth = 0
    for found in re.findall(r"\\.|[()|]", pattern, re.DOTALL):
        depth += {"(": 1, ")": -1}.get(found, 0)
        if found == "|" and depth == 0:
            return True
    return False
