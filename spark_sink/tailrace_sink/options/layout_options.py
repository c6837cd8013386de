"""Options of the lake tables' format and layout, and what a format does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from pydantic import Field, model_validator

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.options.catalog_options import CatalogConfig, CatalogKind
from tailrace_sink.options.iceberg_options import IcebergOptions
from tailrace_sink.options.modes import Profile, TableFormats
from tailrace_sink.options.table_options import TableOptions
from tailrace_sink.tables.lake_table import CURRENT, Kind

_OF_DELTA: Final = "delta."
"""Prefix of Delta's own table properties."""


def format_path(lake: str) -> str:
    """Return the path of the file that names the format of a lake's tables; Delta has none."""
    return f"{lake}/_tailrace/format"


class Layout(NamedTuple):
    """Columns by which a new lake table is partitioned, and those by which it is clustered."""

    partition_by: Sequence[str] = ()
    cluster_by: Sequence[str] = ()


NO_LAYOUT: Final = Layout()


class LayoutOptions(TableOptions):
    """The options of the lake tables' format and layout."""

    format: TableFormats = Field(
        default=TableFormats.DELTA,
        description="Format of the lake's tables; log and commit table are Delta in both."
        " delta: each table of a cut has a commit of its own. iceberg: one commit of the catalog in"
        " the section iceberg publishes all tables of a cut. docs/formats.md compares them, and"
        " lists the options that iceberg does not have.",
    )
    iceberg: IcebergOptions | None = Field(
        default=None, description="Catalog of the lake's tables, for format: iceberg."
    )
    partition_by: dict[str, list[str]] = Field(
        default_factory=dict,
        description="schema.table to the columns a new lake table is partitioned by; with format:"
        " iceberg also day(column), bucket(16, column) and its like. Delta holds no empty text, no"
        " __HIVE_DEFAULT_PARTITION__, and no bytes in a partition: a table that has one stops.",
    )
    cluster_by: dict[str, list[str]] = Field(
        default_factory=dict,
        description="schema.table to the columns a new lake table is clustered by. Delta: liquid"
        " clustering, at most four; takes effect with OPTIMIZE. Iceberg: the order in which"
        " compaction sorts rows, also of tables that exist.",
    )
    profile: Profile = Field(
        default=Profile.FAST,
        description="fast: new tables have deletion vectors, so a change does not rewrite files."
        " Column mapping or type widening is added when a rename, a name that Parquet does not"
        " allow, or a wider type needs it. compatible: none of the three, for readers that do not"
        " know them. A table whose source needs one stops until a new snapshot replaces it."
        " docs/readers.md lists which reader opens what.",
    )
    rewrite_below_bytes: int = Field(
        default=131_072,
        ge=0,
        le=1_073_741_824,
        description="Size of a table up to which files with changed rows are rewritten, even with"
        " deletion vectors. Of a larger table only the smallest such files are rewritten, together"
        " up to this size. 0 to 1073741824 (1 GiB). Lower: more small files. Higher: each retained"
        " version is a larger copy. 0 always uses deletion vectors.",
    )
    table_properties: dict[str, str] = Field(
        default_factory=dict, description="Further properties of new lake tables."
    )

    catalog: CatalogConfig = Field(default_factory=CatalogConfig)

    @model_validator(mode="after")
    def _one_layout(self) -> Self:
        both = sorted(self.partition_by.keys() & self.cluster_by.keys())
        if both:
            raise ValueError(f"{', '.join(both)}: give partition_by or cluster_by, not both")
        return self

    @model_validator(mode="after")
    def _one_format(self) -> Self:
        if self.format is TableFormats.DELTA:
            if self.iceberg is not None:
                raise ValueError("iceberg: this section needs format: iceberg")
            return self
        if self.iceberg is None:
            raise ValueError("format: iceberg needs the section iceberg, with uri and warehouse")
        given = self._only_with_delta()
        if given:
            raise ValueError(
                f"{', '.join(given)}: not available with format: iceberg; remove it, or use delta"
            )
        return self

    def layout_of(self, table: TableName, kind: Kind) -> Layout:
        """Return the layout of a new lake table; that of a history follows from its reads."""
        if kind is Kind.HISTORY:
            return Layout([CURRENT])
        name = f"{table.schema}.{table.table}"
        return Layout(self.partition_by.get(name, ()), self.cluster_by.get(name, ()))

    def _only_with_delta(self) -> list[str]:
        """List the options in use that Iceberg does not carry."""
        options = {
            "catalog": self.catalog.kind is not CatalogKind.NONE,
            "profile": self.profile is not Profile.FAST,
            "rewrite_below_bytes": "rewrite_below_bytes" in self.model_fields_set,
        }
        listed = [name for name in self.table_properties if name.startswith(_OF_DELTA)]
        options |= {f"table_properties {name}": True for name in listed}
        return [name for name, is_given in options.items() if is_given]

    @property
    def iceberg_options(self) -> IcebergOptions:
        """Options of the catalog of a lake in Iceberg."""
        if self.iceberg is None:
            raise ValueError("the lake is not in Iceberg")
        return self.iceberg
