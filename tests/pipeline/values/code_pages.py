"""Texts of every byte in every code page that a collation can have, as a server stores them."""

from __future__ import annotations

from typing import Final

from tests.pipeline.source_database import SourceDatabase

SINGLE: Final = {
    "874": "Thai_CI_AS",
    "1250": "Czech_CI_AS",
    "1251": "Cyrillic_General_CI_AS",
    "1252": "Latin1_General_CI_AS",
    "1253": "Greek_CI_AS",
    "1254": "Turkish_CI_AS",
    "1255": "Hebrew_CI_AS",
    "1256": "Arabic_CI_AS",
    "1257": "Lithuanian_CI_AS",
    "1258": "Vietnamese_CI_AS",
    "437": "SQL_Latin1_General_CP437_CI_AS",
    "850": "SQL_Latin1_General_CP850_CI_AS",
}
DOUBLE: Final = {
    "932": "Japanese_CI_AS",
    "936": "Chinese_PRC_CI_AS",
    "949": "Korean_Wansung_CI_AS",
    "950": "Chinese_Taiwan_Stroke_CI_AS",
}
UTF8: Final = {"65001": "Latin1_General_100_CI_AS_SC_UTF8"}
COLLATIONS: Final = SINGLE | DOUBLE | UTF8
BINARY: Final = {
    "874": "Thai_BIN2",
    "932": "Japanese_BIN2",
    "936": "Chinese_PRC_BIN",
    "949": "Korean_Wansung_BIN2",
    "950": "Chinese_Taiwan_Stroke_BIN2",
    "1252": "Latin1_General_BIN",
    "1253": "Greek_BIN2",
    "1255": "Hebrew_BIN2",
    "437": "SQL_Latin1_General_CP437_BIN2",
    "65001": "Latin1_General_100_BIN2_UTF8",
}
_TRAILS: Final = bytes(range(0x40, 0xFF))


def stored(page: str, byte: int) -> bytes:
    """The bytes of a row's text: the byte, or what can follow it in a character of several."""
    if page in DOUBLE and byte > 0x80:
        return b"".join(bytes([byte, trail]) for trail in _TRAILS)
    if page in UTF8:
        start = byte * 0x110 + 1
        points = [point for point in range(start, start + 60) if not 0xD800 <= point < 0xE000]
        return "".join(map(chr, [*points, 0x1F600 + byte])).encode()
    return bytes([byte])


def make_texts(database: SourceDatabase, kind: str, rounds: int = 1) -> list[str]:
    """Create dbo.t with a column of a kind in each code page, and fill it once it is captured.

    Args:
        rounds: how often each byte occurs.

    Returns:
        The names of the columns.
    """
    columns = [f"c{page} {kind} COLLATE {name}" for page, name in COLLATIONS.items()]
    database.execute(f"CREATE TABLE dbo.t (id int PRIMARY KEY, {', '.join(columns)})")
    database.enable("t")
    rows = [
        f"({n}, {', '.join('0x' + stored(page, n % 256).hex() for page in COLLATIONS)})"
        for n in range(256 * rounds)
    ]
    for start in range(0, len(rows), 32):
        database.execute(f"INSERT dbo.t VALUES {', '.join(rows[start : start + 32])}")
    database.scan()
    return [f"c{page}" for page in COLLATIONS]


_IS_TEXT: Final = (
    "CHARINDEX(NCHAR(0xFFFD), CAST(k AS nvarchar(400)) COLLATE Latin1_General_BIN2) = 0"
)


def make_keys(database: SourceDatabase, page: str, collation: str) -> None:
    """Create dbo.t with the key k: the texts of a code page that a collation distinguishes."""
    texts = {stored(page, byte)[: 2 if page in DOUBLE else 400] for byte in range(1, 256)}
    texts |= {b"a" + text for text in texts}
    rows = [f"(0x{text.hex()})" for text in sorted(texts)]
    column = f"k varchar(400) COLLATE {collation} NOT NULL"
    database.execute(
        f"CREATE TABLE dbo.texts ({column})",
        f"INSERT dbo.texts VALUES {', '.join(rows)}",
        f"CREATE TABLE dbo.t ({column} PRIMARY KEY, v varchar(max))",
        f"INSERT dbo.t SELECT MIN(k), 'v' FROM dbo.texts WHERE {_IS_TEXT} GROUP BY k",
    )
    database.enable("t")


def texts_of_server(database: SourceDatabase, columns: list[str]) -> list[list[str]]:
    """The texts of each row of dbo.t, as the server converts them."""
    values = ", ".join(f"CAST({name} AS nvarchar(max))" for name in columns)
    return [list(row) for row in database.query(f"SELECT {values} FROM dbo.t ORDER BY id")]
