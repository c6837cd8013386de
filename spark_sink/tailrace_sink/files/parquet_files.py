"""Parquet files of lake tables that the format's own writer did not write."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlparse

from tailrace_sink.options.s3_options import is_s3, s3_address
from tailrace_sink.tables.key_bounds import KeyBound, bounded_columns, bounds_of_statistics
from tailrace_sink.tables.lake_table import LakeTable


def pyarrow_path(address: str) -> str | None:
    """Return an address as pyarrow names it; None for a store that only Hadoop opens."""
    if is_s3(address):
        return s3_address(address).removeprefix("s3://").rstrip("/")
    parts = urlparse(address)
    if parts.scheme == "file":
        return unquote(parts.path).rstrip("/")
    return None if parts.scheme else address.rstrip("/")


@dataclass(frozen=True, slots=True)
class FileForm:
    """How a table's files must look.

    Attributes:
        address: of the folder that they are in.
        types: Spark SQL type of each column, in upper case.
        physical: name and id of each column in Parquet; no id if the table does not map columns.
        indexed: columns, from the first on, that get statistics.
        elements: id in Parquet of the elements of each column of lists, if the table maps columns.
        required: columns that are never NULL.
    """

    address: str
    types: Mapping[str, str]
    physical: Mapping[str, tuple[str, int | None]]
    indexed: int
    elements: Mapping[str, int] = field(default_factory=dict)
    required: tuple[str, ...] = ()

    @property
    def is_in_s3(self) -> bool:
        """Whether the folder is in S3 or in a store with its interface."""
        return is_s3(self.address)

    @property
    def folder(self) -> str | None:
        """The folder as pyarrow names it; None for a store that only Hadoop opens."""
        return pyarrow_path(self.address)

    def has_null(self, files: Iterable[ParquetFile]) -> bool:
        """Whether a required column of some files may have a NULL."""
        names = [self.physical[name][0] for name in self.required]
        nulls = (statistics_of(file.statistics)[2] for file in files if names)
        return any(of.get(name) != 0 for of in nulls for name in names)


Content = bytes
"""All bytes of a file."""


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """A file in a table's folder.

    Attributes:
        statistics: JSON in the form of Delta's log.
        content: the whole file, if somebody needs it in memory.
    """

    name: str
    bytes: int
    statistics: str
    content: Content | None = field(default=None, repr=False)


Statistics = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
"""Least values, greatest values and NULL counts by physical column name."""


def statistics_of(text: str | None) -> Statistics:
    """Read the statistics of a file."""
    statistics = json.loads(text or "{}")
    least, greatest, nulls = (
        statistics.get(name, {}) for name in ("minValues", "maxValues", "nullCount")
    )
    return least, greatest, nulls


def key_bounds(
    statistics: Iterable[Statistics], table: LakeTable, physical: Mapping[str, str]
) -> list[KeyBound]:
    """Compute the bounds of the keys in some files.

    A column has no bound if a key is NULL or a file lacks statistics of it.

    Args:
        physical: by column its name in Parquet.
    """
    known: Sequence[Statistics] = list(statistics)
    bounds = []
    for column in bounded_columns(table):
        name = physical[column.name]
        if any(nulls.get(name) != 0 for _, _, nulls in known):
            continue
        extremes = [(lowest.get(name), highest.get(name)) for lowest, highest, _ in known]
        bound = bounds_of_statistics(column, extremes)
        bounds += [] if bound is None else [bound]
    return bounds
