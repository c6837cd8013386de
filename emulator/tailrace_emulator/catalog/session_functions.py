"""Functions and @@globals that describe the server and the session.

The server says what it is: the edition and version texts name the embedded server.

https://learn.microsoft.com/sql/t-sql/functions/serverproperty-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.languages import US_ENGLISH, Language, find_language
from tailrace_emulator.catalog.property_functions import PRODUCT_VERSION
from tailrace_emulator.catalog.scalar_registry import scalar
from tailrace_emulator.catalog.server_views import SERVER_NAME
from tailrace_emulator.values.types import (
    INT,
    SMALLINT,
    TINYINT,
    SqlType,
    StorageValue,
    decimal_type,
    nvarchar,
    pack_decimal,
    varchar,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

VERSION_TEXT: Final = (
    f"Tailrace embedded SQL Server, compatible with Microsoft SQL Server 2022 - {PRODUCT_VERSION}"
    " (X64) \n\tFor development and tests; not Microsoft SQL Server"
)
_IDENTITY: Final = decimal_type(38, 0)


@scalar("FULLTEXTSERVICEPROPERTY", INT, varchar(128))
def _fulltextserviceproperty(_context: SessionContext, _asked: StorageValue) -> StorageValue:
    return 0


@scalar("HOST_NAME", nvarchar(128))
def _host_name(context: SessionContext) -> StorageValue:
    return context.host


@scalar("APP_NAME", nvarchar(128))
def _app_name(context: SessionContext) -> StorageValue:
    return context.application


def _identity(context: SessionContext) -> StorageValue:
    last = context.store.last_identity
    return None if last is None else pack_decimal(last, _IDENTITY)


def _language(context: SessionContext) -> Language:
    return find_language(context.options.language) or US_ENGLISH


Global = Callable[["SessionContext"], StorageValue]

_GLOBALS: Final[dict[str, tuple[SqlType, Global]]] = {
    "@@version": (nvarchar(300), lambda _: VERSION_TEXT),
    "@@servername": (nvarchar(128), lambda _: SERVER_NAME),
    "@@servicename": (nvarchar(128), lambda _: "MSSQLSERVER"),
    "@@spid": (SMALLINT, lambda context: context.session_id),
    "@@trancount": (INT, lambda context: context.store.trancount),
    "@@rowcount": (INT, lambda context: context.rowcount),
    "@@error": (INT, lambda context: context.last_error),
    "@@language": (nvarchar(128), lambda context: context.options.language),
    "@@langid": (SMALLINT, lambda context: _language(context).langid),
    "@@datefirst": (TINYINT, lambda context: context.options.datefirst),
    "@@lock_timeout": (INT, lambda context: context.options.lock_timeout_ms),
    "@@max_precision": (TINYINT, lambda _: 38),
    "@@max_connections": (INT, lambda _: 32767),
    "@@microsoftversion": (INT, lambda _: 16 << 24 | 4135),
    "@@nestlevel": (INT, lambda _: 0),
    "@@options": (INT, lambda context: context.options.bits),
    "@@textsize": (INT, lambda context: context.options.textsize),
    "@@cursor_rows": (INT, lambda _: 0),
    "@@fetch_status": (INT, lambda _: -1),
    "@@remserver": (nvarchar(128), lambda _: None),
    "@@identity": (_IDENTITY, _identity),
}


def global_variable(context: SessionContext, name: str) -> tuple[SqlType, StorageValue] | None:
    """The type and value of an @@global, by its name with both signs; None when unknown."""
    found = _GLOBALS.get(name.casefold())
    return None if found is None else (found[0], found[1](context))
