"""What a task decodes and writes, as the driver describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Writer:
    """A writer schema of the messages.

    Attributes:
        avro: the schema as JSON text.
        is_other: whether its messages are of another table, so that they are only counted.
    """

    schema_id: int
    avro: str
    is_other: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a lake table.

    Attributes:
        name: in the table; one of the sink's own has no fields.
        physical: its name in Parquet.
        type: its Spark SQL type.
        field_id: its id in Parquet, if the table maps columns.
        element_id: that of a list's elements.
        fields: by schema id the field of the images that it holds; missing: it is NULL there.
        is_large: whether ``source.unavailable`` may name it.
        image: before or after; empty: the row after a change, and before a delete.
        is_presence: whether it says if a change has its image, instead of having a field of it.
        is_key: whether it is of the table's key.
        origins: by schema id the text that each of its messages has; of columns with the origin.
    """

    name: str
    physical: str
    type: str
    field_id: int | None = None
    fields: Mapping[int, str] = field(default_factory=dict)
    is_large: bool = False
    image: str = ""
    is_presence: bool = False
    element_id: int | None = None
    is_key: bool = False
    origins: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """A lake table to write into.

    Attributes:
        folder: of the table, as its file system names it.
        columns: in the order of the files.
        indexed: columns, from the first on, that get statistics.
        key: names of the key columns, if only the last change of each key is written; empty: every
            change is a row.
        keeps_deletes: whether the last change of a deleted key is a row.
    """

    folder: str
    columns: tuple[Column, ...]
    indexed: int
    key: tuple[str, ...] = ()
    keeps_deletes: bool = False

    @property
    def large(self) -> tuple[Column, ...]:
        """Columns whose value a change may lack, if changes are reduced."""
        if not self.key:
            return ()
        return tuple(c for c in self.columns if c.is_large and c.name not in self.key)


@dataclass(frozen=True, slots=True)
class Work:
    """What every task of a job does.

    Attributes:
        after_lsn: only changes with a greater commit LSN are written, as text; None: all.
        up_to_lsn: only changes with a commit LSN up to this are written; None: all.
        s3: arguments of ``pyarrow.fs.S3FileSystem``; None: a local folder.
        metadata: key and value pairs for the footers of the files.
    """

    writers: tuple[Writer, ...]
    targets: tuple[Target, ...]
    after_lsn: str | None = None
    up_to_lsn: str | None = None
    s3: Mapping[str, Any] | None = field(default=None, repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict)
