"""Functions that answer sql_variant: properties of the server, connections, collations, values.

https://learn.microsoft.com/sql/t-sql/functions/serverproperty-transact-sql
https://learn.microsoft.com/sql/t-sql/functions/sql-variant-property-transact-sql
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.scalar_registry import scalar
from tailrace_emulator.catalog.server_views import SERVER_NAME
from tailrace_emulator.catalog.type_facts import type_facts
from tailrace_emulator.values.collations import find_collation
from tailrace_emulator.values.types import (
    DEFAULT_COLLATION,
    INT,
    SQL_VARIANT,
    SYSNAME,
    SqlType,
    StorageValue,
    nvarchar,
    varchar,
)
from tailrace_emulator.values.variants import data_bytes, packer, unpacked
from tailrace_emulator.wire.code_pages import UTF8

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

PRODUCT_VERSION: Final = "16.0.4135.4"
EDITION: Final = "Tailrace embedded SQL Server (64-bit)"
_PROPERTY: Final = varchar(128)
_BIGINT: Final = SqlType("bigint")

_SERVER_PROPERTIES: Final[dict[str, str | int]] = {
    "buildclrversion": "",
    "collation": DEFAULT_COLLATION,
    "collationid": 872468488,
    "comparisonstyle": 196609,
    "edition": EDITION,
    "engineedition": 3,  # Enterprise and Developer: the editions with change data capture
    "isadvancedanalyticsinstalled": 0,
    "isclustered": 0,
    "isfulltextinstalled": 0,
    "ishadrenabled": 0,
    "isintegratedsecurityonly": 0,
    "islocaldb": 0,
    "issingleuser": 0,
    "isxtpsupported": 0,
    "lcid": 1033,
    "machinename": SERVER_NAME,
    "processid": os.getpid(),
    "productlevel": "RTM",
    "productmajorversion": PRODUCT_VERSION.split(".", maxsplit=1)[0],
    "productminorversion": "0",
    "productbuild": "4135",
    "productversion": PRODUCT_VERSION,
    "resourceversion": "16.00.4135",
    "servername": SERVER_NAME,
    "sqlcharset": 1,
    "sqlcharsetname": "iso_1",
    "sqlsortorder": 52,
    "sqlsortordername": "nocase_iso",
    "computernamephysicalnetbios": SERVER_NAME,
}


def as_variant(value: str | int | None) -> StorageValue:
    """A property as sql_variant: text is nvarchar(128), a number int."""
    if value is None:
        return None
    return packer(INT if isinstance(value, int) else nvarchar(128))(value)


@scalar("SERVERPROPERTY", SQL_VARIANT, _PROPERTY)
def _serverproperty(_context: SessionContext, asked: StorageValue) -> StorageValue:
    name = str(asked or "").casefold()
    if name == "editionid":
        return packer(_BIGINT)(0)
    return as_variant(_SERVER_PROPERTIES.get(name))


@scalar("CONNECTIONPROPERTY", SQL_VARIANT, _PROPERTY)
def _connectionproperty(_context: SessionContext, asked: StorageValue) -> StorageValue:
    return as_variant(
        {
            "net_transport": "TCP",
            "protocol_type": "TSQL",
            "auth_scheme": "SQL",
            "physical_net_transport": "TCP",
            "local_net_address": "127.0.0.1",
            "client_net_address": "127.0.0.1",
        }.get(str(asked or "").casefold())
    )


@scalar("COLLATIONPROPERTY", SQL_VARIANT, SYSNAME, _PROPERTY)
def _collationproperty(
    _context: SessionContext, name: StorageValue, asked: StorageValue
) -> StorageValue:
    found = find_collation(str(name or ""))
    if found is None:
        return None
    return as_variant(
        {
            "codepage": found.page,
            "lcid": found.lcid,
            "comparisonstyle": found.comparison_style,
            "version": found.version,
        }.get(str(asked or "").casefold())
    )


@scalar("SQL_VARIANT_PROPERTY", SQL_VARIANT, SQL_VARIANT, _PROPERTY)
def _sql_variant_property(
    _context: SessionContext, value: StorageValue, asked: StorageValue
) -> StorageValue:
    if not isinstance(value, str):
        return None
    base_type, _ = unpacked(value)
    facts = type_facts(base_type)
    text = base_type.is_character
    counted = text or base_type.name in {"binary", "varbinary"}
    described = 8 if text else 4 if counted or base_type.is_decimal else 2
    if base_type.name in {"money", "smallmoney"}:
        described = 2
    elif base_type.name in {"time", "datetime2", "datetimeoffset"}:
        described = 3
    properties: dict[str, str | int | None] = {
        "basetype": base_type.name,
        "precision": 0 if counted else facts.precision,
        "scale": 0 if counted else facts.scale,
        "totalbytes": described + data_bytes(value),
        "collation": base_type.collation if text else None,
        "maxlength": facts.max_length,
    }
    return as_variant(properties.get(str(asked or "").casefold()))


def database_properties(collation_name: str) -> dict[str, int | str]:
    """What DATABASEPROPERTYEX returns about a database's collation."""
    found = find_collation(collation_name)
    if found is None:
        return {}
    return {
        "collation": found.name,
        "lcid": found.lcid,
        "comparisonstyle": found.comparison_style,
        "sqlsortorder": found.sort_id,
        "isutf8": int(found.page == UTF8),
    }
