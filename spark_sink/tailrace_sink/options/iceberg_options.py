"""Options of the catalog that holds the lake's tables in Iceberg."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Final, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from tailrace_sink.options.login_section import LoginSection
from tailrace_sink.options.s3_options import is_s3

_CATALOG: Final = "org.apache.iceberg.spark.SparkCatalog"
_FILES: Final = "org.apache.iceberg.hadoop.HadoopFileIO"
"""Iceberg's own S3FileIO needs a bundle of Amazon's SDK with 69 MB; S3A is there already."""
_SECRETS: Final = ("credential", "token")
_PATIENCE: Final = {
    "rest.client.connection-timeout-ms": "15000",
    "rest.client.socket-timeout-ms": "60000",
}
"""Iceberg waits for an answer without a limit."""


class Commits(StrEnum):
    """How the tables of a cut are published."""

    ALL_TABLES = "all_tables"
    EACH_TABLE = "each_table"


class IcebergOptions(LoginSection):
    """The Iceberg catalog that holds the lake's tables."""

    at: ClassVar[str] = "iceberg"

    uri: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="Address of a REST catalog. Without it, warehouse is a folder or a bucket"
        " whose tables are found by their files (a Hadoop catalog), for tests.",
    )
    warehouse: str = Field(
        min_length=1,
        description="Warehouse, as the catalog names it: for a REST catalog a name or an address;"
        " without one the address below which the tables are.",
    )
    name: str = Field(
        default="tailrace", pattern=r"^\w+$", description="Name of the catalog in Spark."
    )
    namespace: str = Field(
        default="{database}_{schema}",
        pattern=r"^(\w|\{database\}|\{schema\})+$",
        description="Namespace of a table, from {database} and {schema}. The lakes of a catalog"
        " need different ones.",
    )
    credential: SecretStr | None = Field(
        default=None,
        description="CLIENT_ID:SECRET, exchanged for a token (OAuth2). Never logged.",
    )
    credential_file: Path | None = Field(
        default=None, description="File whose first line is the credential; read at the start."
    )
    token: SecretStr | None = Field(
        default=None, description="Token of the catalog instead of a credential. Never logged."
    )
    token_file: Path | None = Field(
        default=None, description="File whose first line is the token; read at the start."
    )
    oauth2_uri: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="Address that exchanges the credential; default below uri.",
    )
    scope: str | None = Field(
        default=None, description="Scope of the token, if the server requires one."
    )
    data: str | None = Field(
        default=None,
        description="Address below which tables write data files; default where the catalog puts"
        " them. SeaweedFS's own buckets refuse the files of deletion vectors: name another there.",
    )
    commits: Commits = Field(
        default=Commits.ALL_TABLES,
        description="all_tables: one commit publishes all tables of a cut; the start proves that"
        " the catalog does all or nothing. each_table: one commit a table; readers of the tables"
        " may see some of a cut and not the rest for moments, read().as_of() stays exact.",
    )
    properties: dict[str, str] = Field(
        default_factory=dict,
        description="Further properties of the catalog, as Iceberg documents them.",
    )

    @field_validator("properties")
    @classmethod
    def _no_secrets(cls, given: dict[str, str]) -> dict[str, str]:
        for name in _SECRETS:
            if name in given:
                raise ValueError(f"give {name} as an option of its own, which is never logged")
        return given

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        given = [n for n in (*_SECRETS, *(f"{n}_file" for n in _SECRETS)) if getattr(self, n)]
        if len(given) > 1:
            raise ValueError(f"give {given[0]} or {given[1]}, not both")
        if given and self.uri is None:
            raise ValueError(f"{given[0]} needs uri: only a REST catalog has a login")
        if "@" in (self.uri or ""):  # Messages and logs show the address.
            raise ValueError("uri has a login in it: put it into credential")
        return self

    @property
    def is_in_s3(self) -> bool:
        """Whether the addresses given are in S3; a REST catalog may choose others."""
        return any(map(is_s3, (self.warehouse, self.data or "")))

    def catalog_settings(self) -> dict[str, str]:
        """Return the settings of the catalog, with secrets: never for a command line.

        Raises:
            ConfigError: the file of a secret cannot be read.
        """
        found = {
            "type": "hadoop" if self.uri is None else "rest",
            "uri": self.uri,
            "warehouse": self.warehouse,
            "io-impl": _FILES,
            # A table is read at its newest state: a cached one would be staged on an older state.
            "cache-enabled": "false",
            "credential": self._read("credential"),
            "token": self._read("token"),
            "oauth2-server-uri": self.oauth2_uri,
            "scope": self.scope,
            **_PATIENCE,
            **self.properties,
        }
        begin = f"spark.sql.catalog.{self.name}"
        return {begin: _CATALOG, **{f"{begin}.{n}": text for n, text in found.items() if text}}

    def pyiceberg(self) -> dict[str, str]:
        """Return the properties of the catalog as pyiceberg takes them, with secrets.

        Raises:
            ConfigError: the file of a secret cannot be read.
        """
        found = {
            "type": "rest",
            "uri": self.uri,
            "warehouse": self.warehouse,
            "credential": self._read("credential"),
            "token": self._read("token"),
            # Its own default is the same, with a warning that it will go.
            "oauth2-server-uri": self.oauth2_uri or f"{str(self.uri).rstrip('/')}/v1/oauth/tokens",
            "scope": self.scope,
            # Files are opened with the options of the lake's store, as the sink writes them. An
            # empty name refuses what a catalog otherwise vends, or fails to vend.
            "header.X-Iceberg-Access-Delegation": "",
            **self.properties,
        }
        return {name: text for name, text in found.items() if text is not None}
