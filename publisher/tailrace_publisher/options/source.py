"""Options of the connection to SQL Server."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from tailrace_publisher.errors import ConfigError
from tailrace_publisher.options.odbc import KEYWORDS, check_login, spelled
from tailrace_service.options.sections import Section

_VALVE_REMOVED: Final = (
    "log_valve was removed, so the publisher gives up no table's capture. Fix: remove it, and alert"
    " on LogFillsUp, whose runbook (docs/runbooks/LogFillsUp.md) says how to disable a table's"
    " capture by hand"
)


class Encrypt(StrEnum):
    """TLS to SQL Server, by the names of the Microsoft ODBC driver."""

    NO = "no"
    YES = "yes"
    STRICT = "strict"


class ApplicationIntent(StrEnum):
    """Where an availability group may route the connection."""

    READ_WRITE = "ReadWrite"
    READ_ONLY = "ReadOnly"


class ReadMode(StrEnum):
    """How the changes of a capture instance are read."""

    DIRECT = "direct"
    FUNCTION = "function"


class PrimaryConfig(Section):
    """The connection that changes the source (rotation, cleanup)."""

    host: str | None = Field(
        default=None,
        min_length=1,
        description="Host of the primary, or a listener without read-only routing; default:"
        " source.host.",
    )
    port: int | None = Field(
        default=None, ge=1, le=65535, description="TCP port; 1 to 65535; default: source.port."
    )
    user: str | None = Field(
        default=None,
        min_length=1,
        description="Login in the role db_owner, so that source.user only reads; default: the login"
        " of source.",
    )
    password: SecretStr | None = Field(
        default=None, description="Its password; give this or password_file. Never logged."
    )
    password_file: Path | None = Field(
        default=None, description="File whose first line is its password; read at every connect."
    )

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        given = 2 - [self.password, self.password_file].count(None)
        if given != int(self.user is not None):
            raise ValueError("give user with password or with password_file, or none of the three")
        return self


class SourceConfig(Section):
    """The SQL Server database whose changes are published."""

    host: str = Field(
        min_length=1, description="Host name or address; with an instance name: host\\instance."
    )
    port: int = Field(default=1433, ge=1, le=65535, description="TCP port; 1 to 65535.")
    database: str = Field(
        min_length=1,
        max_length=128,
        description="The one database to publish; every database needs a prefix of its own.",
    )
    user: str | None = Field(
        default=None,
        min_length=1,
        description="SQL Server login; required unless odbc has another way of logging in.",
    )
    password: SecretStr | None = Field(
        default=None, description="Its password; give this or password_file. Never logged."
    )
    password_file: Path | None = Field(
        default=None,
        description="File whose first line is the password; read at every connect, so a rotated"
        " password needs no restart.",
    )
    encrypt: Encrypt = Field(
        default=Encrypt.YES,
        description="TLS: no (clear text, if the server allows it), yes, strict (TDS 8: TLS before"
        " anything else, certificate always checked).",
    )
    trust_server_certificate: bool = Field(
        default=False,
        description="Accept any certificate. True is for tests and private networks: it leaves the"
        " connection open to a man in the middle.",
    )
    application_intent: ApplicationIntent = Field(
        default=ApplicationIntent.READ_WRITE,
        description="ReadOnly lets an availability group route to a secondary, which may lag.",
    )
    login_timeout_s: int = Field(
        default=15,
        ge=1,
        le=300,
        description="Seconds to wait for a connection; 1 to 300.",
    )
    query_timeout_s: int = Field(
        default=300,
        ge=1,
        le=3600,
        description="Seconds a query may take; 1 to 3600. Lower: pages of a slow server are"
        " repeated for ever. Higher: a hanging server is noticed late.",
    )
    time_zone: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        description="Time zone of the server's clock, a name of sys.time_zone_info such as"
        " 'W. Europe Standard Time', for SQL Server 2016 to 2019, which do not report it. Each"
        " commit then gets the UTC offset of its own time, so a backlog across a change of the"
        " clocks has the right times. Without it, all get the current offset. A start compares it"
        " with the server's offset. Not used with SQL Server 2022 and later.",
    )
    odbc: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Further keywords of the driver's connection string, in any case, e.g."
        " MultiSubnetFailover: Yes for a listener in several subnets, Trusted_Connection: Yes and"
        " ServerSPN for Kerberos, Authentication: ActiveDirectoryMsi for Entra. Values are never"
        " logged. Known are " + ", ".join(KEYWORDS) + "; others are refused, because the driver"
        " ignores unknown keywords.",
    )
    driver: str | None = Field(
        default=None,
        description="ODBC driver name or path of its library; default: the newest installed"
        " 'ODBC Driver NN for SQL Server', else the one of the package mssql-python-odbc.",
    )

    read_mode: ReadMode = Field(
        default=ReadMode.DIRECT,
        description="direct reads change tables, with SELECT on schema cdc; function reads through"
        " cdc.fn_cdc_get_all_changes_<instance>, for logins that may not: they need the gating"
        " roles and SELECT on the captured columns (tailrace grants prints them). The functions"
        " return no command id, so the order of a transaction that moves keys among rows may be"
        " unknown, which stops its table. It is slower: each poll with news queries every table."
        " Change it only while the checkpoint is at the end of a transaction.",
    )
    readers: int = Field(
        default=4,
        ge=1,
        le=64,
        description="Connections that read change tables in parallel; 1 to 64. Each is opened when"
        " so many capture instances have news at once, with a second one for blocks.",
    )
    blocks: bool = Field(
        default=True,
        description="Read and encode change rows in blocks, several times faster, if numpy and"
        " pyarrow are installed (the extra `fast`) and a table's types allow it. The events are the"
        " same. False reads everything row by row.",
    )

    primary: PrimaryConfig = Field(default_factory=PrimaryConfig)

    @model_validator(mode="before")
    @classmethod
    def _has_no_valve(cls, options: Any) -> Any:
        if isinstance(options, dict) and "log_valve" in options:
            raise ValueError(_VALVE_REMOVED)
        return options

    @field_validator("odbc")
    @classmethod
    def _known_keywords(cls, odbc: dict[str, SecretStr]) -> dict[str, SecretStr]:
        return spelled(odbc)

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        given = [self.password, self.password_file].count(None)
        check_login(self.odbc, self.user, has_password=given < 2, has_both=given == 0)
        return self

    @property
    def for_changes(self) -> SourceConfig:
        """The connection that changes the source."""
        given = self.primary
        login = {}
        if given.user is not None:
            login = {
                "user": given.user,
                "password": given.password,
                "password_file": given.password_file,
            }
        return self.model_copy(
            update={
                "host": given.host or self.host,
                "port": given.port or self.port,
                "application_intent": ApplicationIntent.READ_WRITE,
                **login,
            }
        )

    @property
    def account(self) -> str:
        """The login as messages name it; the name of the process's own account is unknown."""
        return self.user or "of this process"

    def read_password(self) -> str:
        """Return the password, from the option or from its file.

        Raises:
            ConfigError: the file cannot be read.
        """
        if self.password is not None or self.password_file is None:
            return self.password.get_secret_value() if self.password else ""
        try:
            lines = self.password_file.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise ConfigError(
                [f"source.password_file {self.password_file}: {error.strerror}; make it readable"]
            ) from error
        return lines[0] if lines else ""
