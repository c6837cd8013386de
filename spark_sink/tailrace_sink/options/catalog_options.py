"""Options of the catalog in which lake tables get names."""

from __future__ import annotations

import string
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator

from tailrace_service.options.sections import Section

_JDO: Final = "spark.hadoop.javax.jdo.option"


class CatalogKind(StrEnum):
    """Where names are stored."""

    NONE = "none"
    HIVE = "hive"
    SPARK = "spark"


class CatalogConfig(Section):
    """The catalog in which the lake's tables get names."""

    kind: CatalogKind = Field(
        default=CatalogKind.NONE,
        description="none: tables have no names. hive: a Hive metastore, see metastore."
        " spark: the catalog that the section spark configures. docs/catalogs.md lists what was"
        " tested.",
    )
    metastore: str = Field(
        default="",
        description="Of kind hive: thrift://HOST:PORT of a metastore service, or an absolute folder"
        " for an embedded one (Derby). Only one process at a time can open that folder.",
    )
    name: str = Field(
        default="spark_catalog",
        pattern=r"\w+",
        description="Name of the catalog in Spark.",
    )
    schema_name: str = Field(
        default="{schema}",
        description="Schema of a table's name, from {database} and {schema}."
        " Lakes that share a catalog need {database}_{schema}.",
    )

    @field_validator("schema_name")
    @classmethod
    def _known_fields(cls, template: str) -> str:
        fields = {field for _, field, *_ in string.Formatter().parse(template) if field is not None}
        if not fields <= {"database", "schema"}:
            raise ValueError("use {database} and {schema} only")
        return template

    @field_validator("metastore")
    @classmethod
    def _address(cls, text: str) -> str:
        if text and not text.startswith("thrift://") and not Path(text).is_absolute():
            raise ValueError("give thrift://HOST:PORT or an absolute folder")
        return text

    def spark_settings(self) -> dict[str, str]:
        """Return what a Spark session needs to open the catalog."""
        if self.kind is not CatalogKind.HIVE:
            return {}
        settings = {"spark.sql.catalogImplementation": "hive"}
        if self.metastore.startswith("thrift://"):
            return settings | {"spark.hadoop.hive.metastore.uris": self.metastore}
        if not self.metastore:
            return settings  # hive-site.xml on the class path says where it is
        return settings | {
            f"{_JDO}.ConnectionURL": f"jdbc:derby:;databaseName={self.metastore};create=true",
            "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
            "spark.hadoop.hive.metastore.schema.verification": "false",
        }
