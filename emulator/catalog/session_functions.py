"""Functions and @@globals that tell of the server and the session.

The server says what it is: the edition and version texts name the embedded server.

https://learn.microsoft.com/sql/t-sql/functions/serverproperty-transact-sql
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from emulator.catalog.scalar_registry import scalar
from emulator.catalog.server_views import SERVER_NAME
from emulator.types import (
    DEFAULT_COLLATION,
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
    from emulator.catalog.context import SessionContext

PRODUCT_VERSION: Final = "16.0.4135.4"
EDITION: Final = "Tailrace embedded SQL Server (64-bit)"
VERSION_TEXT: Final = (
    f"Tailrace embedded SQL Server, compatible with Microsoft SQL Server 2022 - {PRODUCT_VERSION}"
    " (X64) \n\tFor development and tests; not Microsoft SQL Server"
)
_IDENTITY: Final = decimal_type(38, 0)

_SERVER_PROPERTIES: Final = {
    "buildclrversion": "",
    "collation": DEFAULT_COLLATION,
    "edition": EDITION,
    "editionid": "0",
    "engineedition": "3",  # Enterprise and Developer: the editions with change data capture
    "isadvancedanalyticsinstalled": "0",
    "isclustered": "0",
    "isfulltextinstalled": "0",
    "ishadrenabled": "0",
    "isintegratedsecurityonly": "0",
    "islocaldb": "0",
    "issingleuser": "0",
    "isxtpsupported": "0",
    "lcid": "1033",
    "machinename": SERVER_NAME,
    "physicalnetbios": SERVER_NAME,
    "processid": str(os.getpid()),
    "productlevel": "RTM",
    "productmajorversion": PRODUCT_VERSION.split(".", maxsplit=1)[0],
    "productminorversion": "0",
    "productbuild": "4135",
    "productversion": PRODUCT_VERSION,
    "resourceversion": "16.00.4135",
    "servername": SERVER_NAME,
    "sqlcharsetname": "iso_1",
    "sqlsortordername": "nocase_iso",
}


@scalar("SERVERPROPERTY", nvarchar(128), varchar(128))
def _serverproperty(_context: SessionContext, asked: StorageValue) -> StorageValue:
    """sql_variant in SQL Server; nvarchar here, which every conversion of it accepts."""
    return _SERVER_PROPERTIES.get(str(asked or "").casefold())


@scalar("CONNECTIONPROPERTY", nvarchar(128), varchar(128))
def _connectionproperty(_context: SessionContext, asked: StorageValue) -> StorageValue:
    return {
        "net_transport": "TCP",
        "protocol_type": "TSQL",
        "auth_scheme": "SQL",
        "physical_net_transport": "TCP",
        "local_net_address": "127.0.0.1",
    }.get(str(asked or "").casefold())


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
    "@@langid": (SMALLINT, lambda _: 0),
    "@@datefirst": (TINYINT, lambda context: context.options.datefirst),
    "@@lock_timeout": (INT, lambda context: context.options.lock_timeout_ms),
    "@@max_precision": (TINYINT, lambda _: 38),
    "@@max_connections": (INT, lambda _: 32767),
    "@@microsoftversion": (INT, lambda _: 16 << 24 | 4135),
    "@@nestlevel": (INT, lambda _: 0),
    "@@procid": (INT, lambda _: 0),
    "@@options": (INT, lambda context: 5496 | (512 if context.options.nocount else 0)),
    "@@textsize": (INT, lambda _: 2147483647),
    "@@cursor_rows": (INT, lambda _: 0),
    "@@fetch_status": (INT, lambda _: -1),
    "@@remserver": (nvarchar(128), lambda _: None),
    "@@identity": (_IDENTITY, _identity),
}


def global_variable(context: SessionContext, name: str) -> tuple[SqlType, StorageValue] | None:
    """The type and value of an @@global, by its name with both signs; None when unknown."""
    found = _GLOBALS.get(name.casefold())
    return None if found is None else (found[0], found[1](context))
