"""How a column's values are changed before they are published, as its Avro field says it.

The column's type in the schema is then that of the values as they are published: text. A column
whose source is large stays a large type, because its value may be unavailable all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from tailrace_schemas.events.column_types import MAX, ColumnType

HASH_CHARACTERS: Final = 64
"""A SHA-256 digest in hexadecimal digits."""

_WITHOUT_DELETE_IMAGE: Final = frozenset({"text", "ntext", "image"})


class TransformKind(StrEnum):
    """What is done to a value; NULL stays NULL."""

    MASK = "mask"
    """A fixed text replaces it."""
    TRUNCATE = "truncate"
    """Only its first characters are left."""
    HASH = "hash"
    """SHA-256 of salt and value, in hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class ColumnTransform:
    """How the values of one column are changed.

    Attributes:
        detail: of a mask its text; of a hash what distinguishes one salt from another. Of
            truncation the number of characters, in UTF-16 code units as ``nvarchar`` counts them.
        width: of a hash the number of characters that a value may have, 0 if unlimited; else 0. It
            follows from the source's type, and is no part of the options.
    """

    kind: TransformKind
    detail: str
    width: int = 0

    def __str__(self) -> str:
        """As the command line shows it."""
        if self.kind is TransformKind.HASH:
            return f"hash SHA-256, salt {self.detail}"
        shown = repr(self.detail) if self.kind is TransformKind.MASK else self.detail
        return f"{self.kind.value} {shown}"

    @property
    def rule(self) -> tuple[TransformKind, str]:
        """What the options say, whatever the source's type is."""
        return self.kind, self.detail

    def published_type(self, source: ColumnType) -> ColumnType:
        """The type of the published values.

        Args:
            source: the type of the source's values.
        """
        if source.is_large:
            if source.name in _WITHOUT_DELETE_IMAGE:
                return ColumnType("ntext")
            return ColumnType("nvarchar", length=MAX)
        if self.kind is TransformKind.HASH:
            return ColumnType("char", length=HASH_CHARACTERS)
        if self.kind is TransformKind.TRUNCATE:
            return ColumnType("nvarchar", length=int(self.detail))
        return ColumnType("nvarchar", length=max(1, len(self.detail.encode("utf-16-le")) // 2))

    def attribute(self) -> dict[str, Any]:
        """The attribute of the Avro field."""
        return {"kind": self.kind.value, "detail": self.detail, "width": self.width}

    @classmethod
    def of_attribute(cls, found: Any) -> Self | None:
        """What :meth:`attribute` wrote; None where a field has none.

        Raises:
            KeyError, TypeError, ValueError: another form.
        """
        if found is None:
            return None
        return cls(TransformKind(found["kind"]), str(found["detail"]), int(found["width"]))
