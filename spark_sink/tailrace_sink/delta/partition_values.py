"""Values that a partition column of Delta does not hold.

A partition's value is text in the log and, without column mapping, in the name of a folder. Some
values are read back as others, without an error, so no row with one of them may be written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.errors import PartitionValueRefused
from tailrace_sink.tables.lake_table import quote

_READ_AS_OTHERS: Final = {
    # See: Delta's protocol, "Partition Value Serialization": an empty string is NULL. Spark names
    # the folder of NULL by the other text (ExternalCatalogUtils.DEFAULT_PARTITION_NAME).
    "string": "{0} IN ('', '__HIVE_DEFAULT_PARTITION__')",
    # The name of a folder is the bytes as UTF-8, which most bytes are not.
    "binary": "{0} IS NOT NULL",
}
"""By Spark's type: condition of values that are read back as others."""
_NO_FOLDERS: Final = {"string": "contains({0}, char(0)) OR octet_length({0}) > 80"}
"""The same of values that may name no folder, whose write fails. A name has up to 255 bytes
(``NAME_MAX`` of Linux), and Spark writes some characters as three (``escapePathName``)."""


def _conditions(
    rows: DataFrame, partitions: Sequence[str], by_type: Mapping[str, str]
) -> dict[str, str]:
    types = dict(rows.dtypes)
    return {
        name: by_type[types[name]].format(quote(name))
        for name in partitions
        if types.get(name) in by_type
    }


def guarded(rows: DataFrame, partitions: Sequence[str]) -> DataFrame:
    """Return rows of which the read fails at a value that would be read back as another."""
    mark = "raise_error('a partition does not hold the value')"
    checked = {
        name: F.expr(f"CASE WHEN {refused} THEN {mark} ELSE {quote(name)} END")
        for name, refused in _conditions(rows, partitions, _READ_AS_OTHERS).items()
    }
    return rows.withColumns(checked) if checked else rows


def require_held(
    rows: DataFrame, partitions: Sequence[str], table: str, *, has_failed: bool = False
) -> None:
    """Require that partitions hold all values of some rows.

    Args:
        has_failed: whether the write of the rows has failed.

    Raises:
        PartitionValueRefused: with a column that has another value.
        PySparkException, Py4JError: Spark failed.
    """
    for by_type in (_READ_AS_OTHERS, _NO_FOLDERS)[: 1 + has_failed]:
        for name, refused in _conditions(rows, partitions, by_type).items():
            if not rows.where(refused).limit(1).isEmpty():
                raise PartitionValueRefused(table, name)
