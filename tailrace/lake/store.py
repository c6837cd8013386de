"""The store of a lake, as deltalake, pyarrow and DuckDB open it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, Self

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow import fs

from tailrace.lake.errors import WITH_SPARK, LakeUnreadable
from tailrace.reading.lake import delta_problem
from tailrace.reading.store_failure import PATIENCE, store_failure
from tailrace_sink.errors import ConfigError
from tailrace_sink.log.delta_query import query_table
from tailrace_sink.options.layout_options import format_path
from tailrace_sink.options.retention import retention_path
from tailrace_sink.options.s3_options import S3Options, is_s3, s3_address
from tailrace_sink.plan.oldest_cut import OldestCut


@dataclass(frozen=True, slots=True)
class LakeStore:
    """The store of a lake.

    Attributes:
        lake: address, without a slash at its end.
        s3: access to S3; None: a local folder.
    """

    lake: str
    s3: S3Options | None = None
    _files: fs.FileSystem = field(default_factory=fs.LocalFileSystem, repr=False)

    @classmethod
    def of(cls, address: str | PathLike[str], options: Mapping[str, Any] | S3Options) -> Self:
        """Return the store of an address.

        Args:
            options: the section ``sink.s3``, or a mapping of its options.

        Raises:
            ConfigError: an option is wrong, or only Hadoop opens the store.
        """
        address = fspath(address)
        lake = s3_address(address).rstrip("/")
        if not lake:
            raise ConfigError(["the lake's address is empty. Fix: use the address in sink.lake"])
        if is_s3(address):
            s3 = options if isinstance(options, S3Options) else S3Options.load(options)
            return cls(lake, s3, fs.S3FileSystem(**s3.pyarrow()))
        if "://" in address:
            scheme = address.partition("://")[0]
            raise ConfigError([f"lake {address}: only Hadoop opens {scheme}://. Fix: {WITH_SPARK}"])
        if options:
            raise ConfigError(
                [
                    f"lake {address}: options of a store need an address at s3://. Fix: leave them"
                    " out, or give that address"
                ]
            )
        return cls(lake)

    @property
    def options(self) -> dict[str, str] | None:
        """What deltalake opens the store with."""
        return None if self.s3 is None else {**self.s3.storage_options(), **PATIENCE}

    def path(self, address: str) -> str:
        """Return an address as the file system of pyarrow names it."""
        return address.partition("://")[2] if self.s3 is not None else address

    @property
    def files(self) -> fs.FileSystem:
        """The file system."""
        return self._files

    def delta(self, path: str, version: int | None = None) -> DeltaTable | None:
        """Open a Delta table below the lake; None if there is none.

        Raises:
            LakeUnreadable, StoreUnusable: it cannot be opened.
        """
        address = f"{self.lake}/{path}"
        with self.reading(address):
            try:
                return DeltaTable(address, version=version, storage_options=self.options)
            except TableNotFoundError:
                return None

    def query(self, table: DeltaTable, sql: str) -> pa.Table:
        """Run a query over a Delta table, which it calls ``t``.

        Raises:
            LakeUnreadable, StoreUnusable: a file cannot be read.
        """
        with self.reading(table.table_uri):
            return query_table(table, sql)

    def text(self, path: str) -> str | None:
        """Read a small text file below the lake; None if there is none.

        Raises:
            LakeUnreadable, StoreUnusable: it cannot be read.
        """
        address = f"{self.lake}/{path}"
        with self.reading(address):
            try:
                with self._files.open_input_file(self.path(address)) as file:
                    return str(file.read().decode("utf-8"))
            except FileNotFoundError:
                return None

    def names(self, path: str) -> list[str]:
        """List the names of the files in a folder below the lake; none if it does not exist.

        Raises:
            LakeUnreadable, StoreUnusable: it cannot be listed.
        """
        address = f"{self.lake}/{path}"
        with self.reading(address):
            chosen = fs.FileSelector(self.path(address), allow_not_found=True)
            return [found.base_name for found in self._files.get_file_info(chosen)]

    def iceberg(self) -> dict[str, str] | None:
        """Read the names of catalog and namespaces of a lake in Iceberg; None: it is in Delta.

        Raises:
            LakeUnreadable, StoreUnusable: it cannot be read.
        """
        found = self.text(format_path("").lstrip("/"))
        try:
            return None if found is None else (dict(json.loads(found)) or None)
        except ValueError as error:
            raise LakeUnreadable(f"{self.lake}/_tailrace/format", str(error)) from error

    def oldest_cut(self) -> OldestCut:
        """Read the oldest kept cut.

        Raises:
            LakeUnreadable, StoreUnusable: it cannot be read.
        """
        found = self.text(retention_path("").lstrip("/"))
        return OldestCut() if found is None else OldestCut.of_json(found)

    @contextmanager
    def reading(self, address: str) -> Iterator[None]:
        """Translate the errors of the libraries that read.

        Raises:
            LakeUnreadable, StoreUnusable: what the libraries said.
        """
        try:
            yield
        except (DeltaError, OSError, pa.ArrowException) as error:
            failure = None
            if self.s3 is not None:
                failure = store_failure(self.lake, self.s3, str(error))
            raise failure or LakeUnreadable(address, delta_problem(error)) from error
