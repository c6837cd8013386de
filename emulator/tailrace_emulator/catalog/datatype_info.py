"""sp_datatype_info: which data types the server has, in ODBC's terms.

The Microsoft ODBC driver queries four of them at each connect and sizes its parameters by the
answer. Without rows it later refuses long strings and sends datetime2 without fractions.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-datatype-info-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.odbc_types import ODBC_3
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    integer,
    procedure,
    result_set,
)
from tailrace_emulator.catalog.registry import Row
from tailrace_emulator.values.results import Event
from tailrace_emulator.values.types import INT, TINYINT

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

_COLUMNS: Final = """TYPE_NAME sysname!, DATA_TYPE smallint!, PRECISION int,
 LITERAL_PREFIX varchar(32), LITERAL_SUFFIX varchar(32), CREATE_PARAMS varchar(32),
 NULLABLE smallint!, CASE_SENSITIVE smallint!, SEARCHABLE smallint!,
 UNSIGNED_ATTRIBUTE smallint, MONEY smallint!, AUTO_INCREMENT smallint,
 LOCAL_TYPE_NAME sysname, MINIMUM_SCALE smallint, MAXIMUM_SCALE smallint, SQL_DATA_TYPE smallint!,
 SQL_DATETIME_SUB smallint, NUM_PREC_RADIX int, INTERVAL_PRECISION smallint, USERTYPE smallint!"""

_Bounds = tuple[int | None, int | None]


def _row(
    name: str,
    code: int,
    precision: int,
    user_type: int = 0,
    *,
    marks: tuple[str | None, str | None] = (None, None),
    parameters: str | None = None,
    nullable: bool = True,
    case: bool = False,
    searchable: int = 2,
    unsigned: int | None = None,
    money: bool = False,
    auto_increment: int | None = None,
    local_name: str | None = None,
    scales: _Bounds = (None, None),
    sql_code: int | None = None,
    subcode: int | None = None,
    radix: int | None = None,
) -> Row:
    return (
        *(name, code, precision, *marks, parameters, int(nullable), int(case), searchable),
        *(unsigned, int(money), auto_increment, local_name or name, *scales),
        *(code if sql_code is None else sql_code, subcode, radix, None, user_type),
    )


def _integers() -> list[Row]:
    rows: list[Row] = []
    for name, code, digits, user_type in (
        ("bigint", -5, 19, 0),
        ("int", 4, 10, 7),
        ("smallint", 5, 5, 6),
        ("tinyint", -6, 3, 5),
    ):
        unsigned = int(name == "tinyint")
        rows += [
            _row(
                f"{name} identity" if identity else name,
                code,
                digits,
                user_type,
                nullable=not identity,
                unsigned=unsigned,
                auto_increment=int(identity),
                scales=(0, 0),
                radix=10,
            )
            for identity in (False, True)
        ]
    return rows


def _decimals() -> list[Row]:
    rows: list[Row] = []
    for name, code, user_type in (("decimal", 3, 24), ("numeric", 2, 10)):
        rows += [
            _row(
                f"{name}() identity" if identity else name,
                code,
                38,
                user_type,
                parameters="precision" if identity else "precision,scale",
                nullable=not identity,
                unsigned=0,
                auto_increment=int(identity),
                local_name=name,
                scales=(0, 0 if identity else 38),
                radix=10,
            )
            for identity in (False, True)
        ]
    return rows


def _other_numbers() -> list[Row]:
    dollar = ("$", None)
    return [
        _row("money", 3, 19, 11, marks=dollar, unsigned=0, money=True, auto_increment=0,
             scales=(4, 4), radix=10),
        _row("smallmoney", 3, 10, 21, marks=dollar, unsigned=0, money=True, auto_increment=0,
             scales=(4, 4), radix=10),
        _row("float", 6, 53, 8, unsigned=0, auto_increment=0, radix=2),
        _row("real", 7, 24, 23, unsigned=0, auto_increment=0, radix=2),
        _row("bit", -7, 1, 16, scales=(0, 0)),
    ]  # fmt: skip


def _strings() -> list[Row]:
    quoted, national, hexadecimal = ("'", "'"), ("N'", "'"), ("0x", None)
    return [
        _row("char", 1, 8000, 1, marks=quoted, parameters="length", searchable=3),
        _row("varchar", 12, 8000, 2, marks=quoted, parameters="max length", searchable=3),
        _row("text", -1, 2147483647, 19, marks=quoted, searchable=1),
        _row("nchar", -8, 4000, marks=national, parameters="length", searchable=3),
        _row("nvarchar", -9, 4000, marks=national, parameters="max length", searchable=3),
        _row("sysname", -9, 128, 18, marks=national, nullable=False, searchable=3),
        _row("ntext", -10, 1073741823, marks=national, searchable=1),
        _row("xml", -152, 0, marks=national, case=True, searchable=0),
        _row("binary", -2, 8000, 3, marks=hexadecimal, parameters="length"),
        _row("timestamp", -2, 8, 80, marks=hexadecimal, nullable=False),
        _row("varbinary", -3, 8000, 4, marks=hexadecimal, parameters="max length"),
        _row("image", -4, 2147483647, 20, marks=hexadecimal, searchable=0),
        _row("uniqueidentifier", -11, 36, marks=quoted),
        _row("sql_variant", -150, 8000),
    ]


def _times(odbc_version: int) -> list[Row]:
    rows: list[Row] = []
    known: tuple[tuple[str, int, int, int, _Bounds, int | None, int], ...] = (
        ("date", 91, 9, 10, (None, None), 1, 0),
        ("datetime2", 93, 11, 27, (0, 7), 3, 0),
        ("datetime", 93, 11, 23, (3, 3), 3, 12),
        ("smalldatetime", 93, 11, 16, (0, 0), 3, 22),
        ("time", -154, -154, 16, (0, 7), 2, 0),
        ("datetimeoffset", -155, -155, 34, (0, 7), None, 0),
    )
    for name, code_3, code_2, digits, scales, subcode, user_type in known:
        rows.append(
            _row(
                name,
                code_3 if odbc_version >= ODBC_3 else code_2,
                digits,
                user_type,
                marks=("'", "'"),
                parameters="scale" if scales == (0, 7) else None,
                searchable=3,
                scales=scales,
                sql_code=9 if code_3 in {91, 93} else code_3,
                subcode=subcode,
            )
        )
    return rows


def datatype_rows(odbc_version: int) -> list[Row]:
    """Every type, by DATA_TYPE and then by how closely it is the type of that code.

    Args:
        odbc_version: 3 and above use ODBC 3's codes for dates and times.
    """
    rows = [
        *_integers(),
        *_decimals(),
        *_other_numbers(),
        *_strings(),
        *_times(odbc_version),
    ]
    places = {row[0]: place for place, row in enumerate(rows)}

    def order(row: Row) -> tuple[int, int]:
        code = row[1]
        return code if isinstance(code, int) else 0, places[row[0]]

    return sorted(rows, key=order)


_PARAMETERS: Final = (
    ProcedureParameter("@data_type", INT, 0),
    ProcedureParameter("@ODBCVer", TINYINT, 2),
)


@procedure("sp_datatype_info", *_PARAMETERS)
@procedure("sp_datatype_info_90", *_PARAMETERS)
@procedure("sp_datatype_info_100", *_PARAMETERS)
def _datatype_info(_context: SessionContext, args: Arguments) -> Iterator[Event]:
    wanted = integer(args["@data_type"]) or 0
    rows = datatype_rows(integer(args["@ODBCVer"]) or 2)
    yield from result_set(_COLUMNS, (row for row in rows if wanted in {0, row[1]}))
