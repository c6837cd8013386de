"""Cuts of a lake without Spark: as Arrow, DuckDB, Polars and pandas see them.

:func:`open` a lake, choose a cut with ``as_of``, and read its tables. The rows are those that
``tailrace_sink.read`` returns with Spark. Needs the extra ``tailrace[lake]``; no JVM. A lake in
Iceberg needs ``tailrace[iceberg]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from tailrace.lake.errors import (
    ColumnsChanged,
    ExtraMissing,
    FeatureUnsupported,
    LakeUnreadable,
    NeedsSpark,
    QueryFailed,
    from_extra,
)

if TYPE_CHECKING:
    from tailrace.lake.reader import Lake

__all__ = [
    "ColumnsChanged",
    "ExtraMissing",
    "FeatureUnsupported",
    "LakeUnreadable",
    "NeedsSpark",
    "QueryFailed",
    "open",
]


def open(  # noqa: A001 - lake.open(...) is its name
    address: str | PathLike[str], *, iceberg: Mapping[str, Any] | None = None, **options: Any
) -> Lake:
    """Open a lake.

    Args:
        address: folder or ``s3://bucket/path``, as ``sink.lake``.
        iceberg: of a lake in Iceberg, the catalog: ``uri``, ``warehouse``, ``credential``, ... as
            in ``sink.iceberg``. Its name and the namespaces are the lake's own. None: pyiceberg's
            configuration (``~/.pyiceberg.yaml``, environment) describes the catalog of that name.
        options: of the store, as in ``sink.s3``: ``endpoint``, ``region``, ``access_key``, ... None
            for AWS with the credentials that its libraries find.

    Raises:
        ConfigError: an option is wrong, or the address is in a store that only Hadoop opens.
        ExtraMissing: a package of the extra is not installed.
    """
    with from_extra("lake"):
        from tailrace.lake.reader import Lake
        from tailrace.lake.store import LakeStore
        from tailrace_sink.options.iceberg_options import IcebergOptions

    catalog = None if iceberg is None else IcebergOptions.load(iceberg)
    return Lake(LakeStore.of(address, options), catalog)
