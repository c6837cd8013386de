"""sp_datatype_info: which data types the server has, in ODBC's terms.

The Microsoft ODBC driver asks for four of them at each connect and sizes its parameters by the
answer; without rows it later refuses long strings and sends datetime2 without fractions.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-datatype-info-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from emulator.catalog.odbc_types import ODBC_3
from emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    integer,
    procedure,
    result_set,
)
from emulator.catalog.registry import Row
from emulator.results import Event
from emulator.types import INT, TINYINT

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext

_COLUMNS: Final = """TYPE_NAME sysname!, DATA_TYPE smallint!, PRECISION int,
 LITERAL_PREFIX varchar(32), LITERAL_SUFFIX varchar(32), CREATE_PARAMS varchar(32),
 NULLABLE smallint!, CASE_SENSITIVE smallint!, SEARCHABLE smallint!, UNSIGNED_ATTRIBUTE smallint, MONEY smallint!, AUTO_INCREMENT smallint,
 LOCAL_TYPE_NAME sysname, MINIMUM_SCALE smallint, MAXIMUM_SCALE smallint, SQL_DATA_TYPE smallint!,
 SQL_DATETIME_SUB smallint, NUM_PREC_RADIX int, INTERVAL_PRECISION smallint, USERTYPE smallint!"""

_NUMBERS: Final = (
    # name, code, precision, unsigned, money, scales, radix, user type
    ("bigint", -5, 19, 0, 0, 0, 10, 0),
    ("int", 4, 10, 0, 0, 0, 10, 7),
    ("smallint", 5, 5, 0, 0, 0, 10, 6),
    ("tinyint", -6, 3, 1, 0, 0, 10, 5),
    ("money", 3, 19, 0, 1, 4, 10, 11),
    ("smallmoney", 3, 10, 0, 1, 4, 10, 21),
    ("float", 6, 53, 0, 0, None, 2, 8),
    ("real", 7, 24, 0, 0, None, 2, 23),
)
_TEXTS: Final = (
    # name, code, precision, prefix, suffix, parameters, case sensitive, searchable, user type
    ("char", 1, 8000, "'", "'", "length", 0, 3, 1),
    ("varchar", 12, 8000, "'", "'", "max length", 0, 3, 2),
    ("text", -1, 2147483647, "'", "'", None, 0, 1, 19),
    ("nchar", -8, 4000, "N'", "'", "length", 0, 3, 0),
    ("nvarchar", -9, 4000, "N'", "'", "max length", 0, 3, 0),
    ("sysname", -9, 128, "N'", "'", None, 0, 3, 18),
    ("ntext", -10, 1073741823, "N'", "'", None, 0, 1, 0),
    ("xml", -152, 0, "N'", "'", None, 1, 0, 0),
    ("binary", -2, 8000, "0x", None, "length", 0, 2, 3),
    ("timestamp", -2, 8, "0x", None, None, 0, 2, 80),
    ("varbinary", -3, 8000, "0x", None, "max length", 0, 2, 4),
    ("image", -4, 2147483647, "0x", None, None, 0, 0, 20),
    ("uniqueidentifier", -11, 36, "'", "'", None, 0, 2, 0),
    ("sql_variant", -150, 8000, None, None, None, 0, 2, 0),
)
_TIMES: Final = (
    # name, ODBC 3 code, ODBC 2 code, precision, scales, subcode, user type
    ("date", 91, 9, 10, (None, None), 1, 0),
    ("datetime2", 93, 11, 27, (0, 7), 3, 0),
    ("datetime", 93, 11, 23, (3, 3), 3, 12),
    ("smalldatetime", 93, 11, 16, (0, 0), 3, 22),
    ("time", -154, -154, 16, (0, 7), 2, 0),
    ("datetimeoffset", -155, -155, 34, (0, 7), None, 0),
)


def datatype_rows(odbc_version: int) -> list[Row]:
    """Every type, by DATA_TYPE and then by how closely it is the type of that code.

    Args:
        odbc_version: 3 and above use ODBC 3's codes for dates and times.
    """
    rows: list[Row] = []
    for name, code, precision, unsigned, money, scale, radix, user_type in _NUMBERS:
        rows.append(
            (
                *(
                    name,
                    code,
                    precision,
                    "$" if money else None,
                    None,
                    None,
                    1,
                    0,
                    2,
                    unsigned,
                    money,
                    0,
                    name,
                ),
                *(scale, scale, code, None, radix, None, user_type),
            )
        )
    for identity in ("", "() identity"):
        for name, code, user_type in (("decimal", 3, 24), ("numeric", 2, 10)):
            shown = name + identity
            parameters = "precision" if identity else "precision,scale"
            rows.append(
                (
                    *(shown, code, 38, None, None, parameters, int(not identity), 0, 2, 0, 0),
                    *(int(bool(identity)), name, 0, 0 if identity else 38, code, None, 10),
                    *(None, user_type),
                )
            )
    for name, code, precision, _, _, _, radix, user_type in _NUMBERS[:4]:
        rows.append(
            (
                *(f"{name} identity", code, precision, None, None, None, 0, 0, 2),
                *(int(name == "tinyint"), 0, 1, f"{name} identity", 0, 0, code, None, radix),
                *(None, user_type),
            )
        )
    rows.append(
        (
            *("bit", -7, 1, None, None, None, 1, 0, 2, None, 0, None, "bit", 0, 0, -7),
            *(None, None, None, 16),
        )
    )
    for name, code, precision, prefix, suffix, parameters, case, search, user_type in _TEXTS:
        nullable = int(name not in {"timestamp", "sysname"})
        rows.append(
            (
                *(name, code, precision, prefix, suffix, parameters, nullable, case, search, None),
                *(0, None, name, None, None, code, None, None, None, user_type),
            )
        )
    for name, code_3, code_2, precision, scales, sub, user_type in _TIMES:
        code = code_3 if odbc_version >= ODBC_3 else code_2
        sql_code = 9 if code_3 in {91, 93} else code_3
        rows.append(
            (
                *(name, code, precision, "'", "'", "scale" if scales[1] == 7 else None, 1, 0, 3),
                *(None, 0, None, name, *scales, sql_code, sub, None, None, user_type),
            )
        )
    order = {row[0]: place for place, row in enumerate(rows)}
    return sorted(rows, key=lambda row: (row[1], order[row[0]]))


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
