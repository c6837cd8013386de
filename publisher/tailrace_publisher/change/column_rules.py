"""The options of columns, applied to the columns of a capture instance (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tailrace_publisher.change.instance import CapturedColumn, CaptureInstance
from tailrace_publisher.options.columns import ColumnsConfig
from tailrace_schemas.events.column_types import MAX, ColumnType
from tailrace_schemas.events.transforms import ColumnTransform, TransformKind
from tailrace_service.options.sections import matches

_TEXT: Final = frozenset(
    {"char", "varchar", "nchar", "nvarchar", "text", "ntext", "sysname", "xml", "json"}
)
_HASHED: Final[Mapping[str, int]] = {
    "bit": 1,
    "tinyint": 3,
    "smallint": 6,
    "int": 11,
    "bigint": 20,
    "decimal": 41,
    "numeric": 41,
    "uniqueidentifier": 36,
    "sysname": 128,
}
"""Characters of a value as text; text types have their declared length."""
_PLAIN: Final = re.compile(r"[\w$#@ -]+\\?\.[\w$#@ -]+\\?\.[\w$#@ -]+")


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """The rules of the options for columns.

    Attributes:
        salt_id: distinguishes the salt of hashes from another one.
    """

    options: ColumnsConfig = field(default_factory=ColumnsConfig)
    salt_id: str = ""

    def publishes(self, instance: CaptureInstance, column: CapturedColumn) -> bool:
        """Return whether a column is published."""
        name = _full_name(instance, column)
        return matches(self.options.include, name) and not matches(self.options.exclude, name)

    def reads(self, instance: CaptureInstance, column: CapturedColumn) -> bool:
        """Return whether a column's values are read: it is published, and not masked."""
        made = self.transform_of(instance, column)
        is_masked = made is not None and made.kind is TransformKind.MASK
        return self.publishes(instance, column) and not is_masked

    def changes(self, instance: CaptureInstance, column: CapturedColumn) -> bool:
        """Return whether a column's values are changed or left out."""
        made = self.transform_of(instance, column)
        return made is not None or not self.publishes(instance, column)

    def leaves_out(self, instance: CaptureInstance) -> bool:
        """Return whether any captured column is not published."""
        return not all(self.publishes(instance, column) for column in instance.columns)

    def transform_of(
        self, instance: CaptureInstance, column: CapturedColumn
    ) -> ColumnTransform | None:
        """Return the transform of a column's values: that of the first matching rule."""
        return next((made for _, made in self._rules_of(instance, column)), None)

    def _rules_of(
        self, instance: CaptureInstance, column: CapturedColumn
    ) -> Iterator[tuple[str, ColumnTransform]]:
        """Yield all rules for a column: the option with its pattern, and its transform."""
        name = _full_name(instance, column)
        for pattern, text in self.options.mask.items():
            if matches([pattern], name):
                yield f"columns.mask {pattern!r}", ColumnTransform(TransformKind.MASK, text)
        for pattern, characters in self.options.truncate.items():
            if matches([pattern], name):
                made = ColumnTransform(TransformKind.TRUNCATE, str(characters))
                yield f"columns.truncate {pattern!r}", made
        for pattern in self.options.hash:
            if matches([pattern], name):
                width = _characters(column.type) or 0
                made = ColumnTransform(TransformKind.HASH, self.salt_id, width)
                yield f"columns.hash {pattern!r}", made

    def problems(self, instance: CaptureInstance) -> list[str]:
        """Return why the options do not fit a capture instance, one sentence each."""
        if self.options.is_everything:
            return []
        found: list[str] = []
        for column in instance.columns:
            found += self._problems_of(instance, column)
        if not any(self.publishes(instance, column) for column in instance.columns):
            found.append(
                f"table {instance.table}: columns.include and columns.exclude leave no column. Fix:"
                " exclude the table with tables.exclude"
            )
        return found

    def _problems_of(self, instance: CaptureInstance, column: CapturedColumn) -> Iterator[str]:
        where = f"table {instance.table}, column {column.name}"
        is_key = column.name in {*instance.key, *instance.identity}
        if not self.publishes(instance, column):
            if is_key:
                yield (
                    f"{where}: columns.include and columns.exclude leave out a column of the key,"
                    f" {_KEY_FIX}"
                )
            return
        rules = list(self._rules_of(instance, column))
        if is_key and rules:
            yield f"{where}: {rules[0][0]} is for a column of the key, {_KEY_FIX}"
        elif len(rules) > 1:
            names = " and ".join(name for name, _ in rules)
            yield f"{where}: {names} are both for it. Fix: let only one of them match"
        elif rules:
            name, made = rules[0]
            if made.kind is TransformKind.TRUNCATE and column.type.name not in _TEXT:
                yield (
                    f"{where}: {name} is for a column of type {column.type}, and only text can be"
                    " cut. Fix: mask or exclude the column"
                )
            if made.kind is TransformKind.HASH and _characters(column.type) is None:
                yield (
                    f"{where}: {name} is for a column of type {column.type}, whose values have no"
                    " single text form. Fix: mask or exclude the column"
                )

    def unmatched(self, instances: list[CaptureInstance]) -> list[tuple[str, str]]:
        """Return plain names that match no captured column: the option, and the name."""
        known = {
            _full_name(instance, column).casefold()
            for instance in instances
            for column in instance.columns
        }
        named = {
            "include": self.options.include,
            "exclude": self.options.exclude,
            "mask": list(self.options.mask),
            "truncate": list(self.options.truncate),
            "hash": self.options.hash,
        }
        return [
            (f"columns.{option}", plain)
            for option, patterns in named.items()
            for pattern in patterns
            if _PLAIN.fullmatch(pattern)
            and (plain := pattern.replace("\\", "")).casefold() not in known
        ]


_KEY_FIX: Final = (
    "which identifies events and rows of the lake. Fix: publish the column unchanged, or exclude"
    " the table with tables.exclude; if the column is not in the primary key, choose other key"
    " columns with message_keys"
)


def _full_name(instance: CaptureInstance, column: CapturedColumn) -> str:
    return f"{instance.table.schema}.{instance.table.table}.{column.name}"


def _characters(declared: ColumnType) -> int | None:
    """Return the characters of a value's text, 0 if unlimited; None if there is no single text."""
    if declared.name in _HASHED:
        return _HASHED[declared.name]
    if declared.name not in _TEXT:
        return None
    return 0 if declared.length == MAX or declared.is_large else declared.length
