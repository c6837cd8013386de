"""A lake table at the version of a commit row: its description and its rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tailrace.lake.errors import FeatureUnsupported
from tailrace.lake.store import LakeStore
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.log.delta_query import query_engine
from tailrace_sink.reading.cut_errors import CutUnknown
from tailrace_sink.tables.described_table import Described, described_table
from tailrace_sink.tables.lake_table import PHYSICAL_NAME, Kind, LakeTable, table_path

_SQL_TYPES: Final = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
}
"""Delta's names of types that Spark's SQL calls otherwise."""
_UNSUPPORTED: Final = re.compile(r"[Uu]nsupported table features|not yet supported")
_VECTORS: Final = "deletionVectors"


class FoldedTable:
    """A lake table at a version.

    Raises:
        CutUnknown: there is no such table.
        LakeUnreadable, StoreUnusable: it cannot be opened.
    """

    def __init__(self, store: LakeStore, table: TableName, kind: Kind, version: int) -> None:
        self._store = store
        self._name = table
        self._kind = kind
        self._version = version
        found = store.delta(table_path(table, kind), version)
        if found is None:
            raise CutUnknown(f"table {table} is gone from {store.lake}/{table_path(table, kind)}")
        self._delta = found
        self.schema = _schema_of(found)

    @property
    def _fields(self) -> list[dict[str, Any]]:
        """The columns of Delta's log."""
        fields: list[dict[str, Any]] = json.loads(self._delta.schema().to_json())["fields"]
        return fields

    @property
    def has_changed_columns(self) -> bool:
        """Whether every row is a change."""
        return "_cdc_changed" in self.schema.names

    @property
    def rows(self) -> pa.Table:
        """All rows, in memory; raises as :meth:`batches`."""
        return self.batches().read_all()

    def described(self, kind: Kind) -> LakeTable:
        """Describe the table.

        Raises:
            LakeTableChanged: somebody else changed columns or properties that the sink needs.
        """
        columns = (
            Described(of["name"], _sql_type(of["type"]), of["metadata"].get("comment"))
            for of in self._fields
        )
        properties = self._delta.metadata().configuration
        return described_table(self._name, kind, columns, properties)

    def batches(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Read the rows in batches.

        Args:
            columns: the wanted ones; None: all.

        Raises:
            FeatureUnsupported: no installed reader supports a feature of the table.
            LakeUnreadable, StoreUnusable: a file cannot be read; also while batches are read.
        """
        names = self.schema.names if columns is None else list(columns)
        wanted = pa.schema([self.schema.field(name) for name in names])
        listed = ", ".join(_quoted(name) for name in names)
        with self._store.reading(self._delta.table_uri):
            try:
                engine = query_engine().register("t", self._delta)
                answer = engine.execute(f"SELECT {listed} FROM t")
                found = pa.RecordBatchReader.from_stream(answer)
            except DeltaError as error:
                if not _UNSUPPORTED.search(str(error)):
                    raise
                found = self._by_duckdb(listed)
        return pa.RecordBatchReader.from_batches(wanted, self._cast(found, wanted))

    def dataset(self) -> ds.Dataset | None:
        """Return the files as a dataset that reads them when it is asked.

        None if some of the table's features are Delta's alone: deletion vectors that are in use,
        mapped or widened columns, partitions.
        """
        features = set(self._delta.protocol().reader_features or [])
        if features - {_VECTORS, "timestampNtz", "columnMapping"}:
            return None
        if any(PHYSICAL_NAME in of["metadata"] for of in self._fields):
            return None
        if self._delta.metadata().partition_columns:
            return None
        with self._store.reading(self._delta.table_uri):
            if _VECTORS in features and pa.table(self._delta.deletion_vectors()).num_rows:
                return None
            paths = [self._store.path(uri) for uri in self._delta.file_uris()]
        if not paths:
            return None
        # Spark writes instants as INT96, which Arrow otherwise reads as nanoseconds.
        format_ = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
        return ds.dataset(paths, schema=self.schema, format=format_, filesystem=self._store.files)

    def _by_duckdb(self, listed: str) -> pa.RecordBatchReader:
        features = tuple(self._delta.protocol().reader_features or [])
        try:
            from tailrace.lake.duck_delta import with_delta

            duck = with_delta(self._store)
        except ImportError as error:
            raise FeatureUnsupported(
                str(self._name), self._version, features, str(error)
            ) from error
        uri = f"{self._store.lake}/{table_path(self._name, self._kind)}"
        sql = f"SELECT {listed} FROM delta_scan(?, version => {self._version})"
        return duck.execute(sql, [uri]).to_arrow_reader()

    def _cast(self, found: pa.RecordBatchReader, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        with self._store.reading(self._delta.table_uri):
            for batch in found:
                columns = [
                    column if column.type == field.type else column.cast(field.type)
                    for column, field in zip(batch.columns, wanted, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _schema_of(table: DeltaTable) -> pa.Schema:
    """Return the Arrow schema of a table: no views, microseconds, UTC."""
    return plain_schema(pa.schema(table.schema().to_arrow()))


def plain_schema(found: pa.Schema) -> pa.Schema:
    """Return a schema with the types that the lake's readers agree on."""
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in found])


def _plain(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(pa.field("element", _plain(type_.value_type)))
    if pa.types.is_string_view(type_) or pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_binary_view(type_) or pa.types.is_large_binary(type_):
        return pa.binary()
    return type_


def _sql_type(type_: Any) -> str:
    """Return Spark's SQL name of a type; empty for a nested one, which no source has."""
    return _SQL_TYPES.get(type_, type_.upper()) if isinstance(type_, str) else ""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
