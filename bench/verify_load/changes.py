"""What the writers do to each table: statements with their parameters, drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from bench.verify_load.tables import ACCOUNTS, EVOLVING, literals
from tests.verify_values import VALUES

Statement = tuple[str, Sequence[Any]]
_TEXTS: Final = ("", " ", "trailing  ", "abcd\U0001f600e", "Åsa", "1:;-", "a\r\nb", None)
_WORDS: Final = ("İstanbul", "istanbul", "ISTANBUL", "\u0131rmak", "Straße", "strasse", "e\u0301t")
_LATIN: Final = ("Café", "CAFE", "cafe ", "", "ß", None)
_GREEK: Final = ("Αθήνα", "αθηνα", "ΑΘΗΝΑ ", None)
_JAPANESE: Final = ("カタカナ", "かたかな", "ｶﾀｶﾅ", "漢字 ", None)
_LARGE: Final = (0, 1, 4_001, 9_000, 70_000)


def of_kinds(chance: random.Random) -> Statement:
    """Rows with a value of each type."""
    key = chance.randrange(600)
    match chance.randrange(6):
        case 0:
            return "DELETE dbo.kinds WHERE id = ?", [key]
        case 1 | 2:
            values = ", ".join(literals(chance))
            return (
                f"INSERT dbo.kinds SELECT {key}, {values}"
                f" WHERE NOT EXISTS (SELECT * FROM dbo.kinds WHERE id = {key})",
                [],
            )
        case _:
            column, known = chance.choice(list(VALUES.items()))
            literal = chance.choice(known).literal
            return f"UPDATE dbo.kinds SET [{column}] = {literal} WHERE id = ?", [key]


def of_accounts(chance: random.Random) -> Statement:
    """Values and keys of one row, and a value of many."""
    key = chance.randrange(ACCOUNTS)
    match chance.randrange(7):
        case 0:
            return "DELETE dbo.accounts WHERE id = ?", [key]
        case 1:
            return (
                "INSERT dbo.accounts (branch, id, owner, balance) SELECT 3, ?, N'new', 0.5"
                " WHERE NOT EXISTS (SELECT * FROM dbo.accounts WHERE id = ?)",
                [key, key],
            )
        case 2:
            return (
                "UPDATE dbo.accounts SET branch = 7 - branch WHERE id = ? AND branch <= 7",
                [key],
            )
        case 3:
            photo = chance.randbytes(chance.choice(_LARGE))
            return "UPDATE dbo.accounts SET photo = ? WHERE id = ?", [photo, key]
        case 4:
            return (
                f"UPDATE dbo.accounts SET balance += 0.01 WHERE id % 397 = ? AND id < {ACCOUNTS}",
                [key % 397],
            )
        case _:
            return "UPDATE dbo.accounts SET balance += 0.01 WHERE id = ?", [key]


def of_people(chance: random.Random) -> Statement:
    """Masked, hashed and cut values; keys that are the same by the server's rules."""
    code = f"c{chance.randrange(100)}"
    match chance.randrange(5):
        case 0:
            return "DELETE dbo.people WHERE code = ?", [code]
        case 1:
            values = [chance.choice(_TEXTS) for _ in range(4)]
            return _inserted("people", "code", code, _alike(chance, code), *values, "2000-01-01")
        case 2:
            return "UPDATE dbo.people SET code = ? WHERE code = ?", [_alike(chance, code), code]
        case _:
            column = chance.choice(("name", "salary", "mail", "remarks"))
            return (
                f"UPDATE dbo.people SET {column} = ? WHERE code = ?",
                [chance.choice(_TEXTS), code],
            )


def of_documents(chance: random.Random) -> Statement:
    """Large values, and changes of other columns, which change tables have without them."""
    key = chance.randrange(60)
    text = chance.choice("aΩ\U0001f600") * (chance.choice(_LARGE) // 2)
    match chance.randrange(7):
        case 0:
            return "DELETE dbo.documents WHERE id = ?", [key]
        case 1:
            values = [1, text, "plain", f"<a>{key}</a>", chance.randbytes(9_000)]
            return _inserted("documents", "id", key, key, *values)
        case 2:
            return "UPDATE dbo.documents SET body = ? WHERE id = ?", [text, key]
        case 3:
            page = f"<a><b>{chance.random()}</b></a>"
            return "UPDATE dbo.documents SET page = ?, note = ? WHERE id = ?", [page, "n" * 99, key]
        case 4:
            return "UPDATE dbo.documents SET scan = NULL WHERE id = ?", [key]
        case _:
            return "UPDATE dbo.documents SET pages += 1 WHERE id = ?", [key]


def of_readings(chance: random.Random) -> Statement:
    """Times that the server rounds, and floats."""
    sensor, at = f"s{chance.randrange(9)}", _moment(chance)
    number = chance.choice(
        (chance.random(), chance.uniform(-1e300, 1e300), 0.1 + 0.2, -0.0, 1e-300, None)
    )
    match chance.randrange(6):
        case 0:
            return "DELETE TOP (3) FROM dbo.readings WHERE sensor = ?", [sensor]
        case 1 | 2:
            return (
                "INSERT dbo.readings SELECT CAST(? AS datetime), ?, ?, ?, ?, ?, ?"
                " WHERE NOT EXISTS (SELECT * FROM dbo.readings"
                " WHERE at = CAST(? AS datetime) AND sensor = ?)",
                [at, sensor, number, chance.random(), at, f"{at}4567", f"{at}+05:30", at, sensor],
            )
        case 3:
            return (
                "UPDATE dbo.readings SET at = DATEADD(MILLISECOND, 3, at)"
                " WHERE sensor = ? AND DATEPART(MINUTE, at) = ?",
                [sensor, chance.randrange(60)],
            )
        case 4:
            return (
                "UPDATE dbo.readings SET value = ?, rough = ? WHERE sensor = ?",
                [number, chance.uniform(-1e30, 1e30), sensor],
            )
        case _:
            return (
                "UPDATE dbo.readings SET rounded = CAST(? AS smalldatetime), exact = ?, zone = ?"
                " WHERE sensor = ? AND DATEPART(SECOND, at) < 20",
                [at, f"{at}9999", f"{at}-11:00", sensor],
            )


def of_sizes(chance: random.Random) -> Statement:
    """A key of binary digits, money and long decimals."""
    size = chance.randrange(200) / 7 * 10.0 ** chance.randrange(-9, 9)
    money = Decimal(chance.randrange(-(10**9), 10**9)).scaleb(-4)
    match chance.randrange(5):
        case 0:
            return "DELETE TOP (2) FROM dbo.sizes WHERE size > ?", [size]
        case 1 | 2:
            precise = Decimal(chance.randrange(10**37)).scaleb(-18)
            values = [money, money, "1582-10-10", "23:59:59.9996", precise]
            return _inserted("sizes", "size", size, size, *values)
        case 3:
            return "UPDATE TOP (5) dbo.sizes SET price = ?, cheap = NULL WHERE size > ?", [
                money,
                size,
            ]
        case _:
            return "UPDATE TOP (2) dbo.sizes SET size = size * 1.1 WHERE size > ?", [size]


def of_words(chance: random.Random) -> Statement:
    """Keys and values in several collations, with trailing blanks."""
    word = f"{chance.choice(_WORDS)}{chance.randrange(20)}"
    match chance.randrange(5):
        case 0:
            return "DELETE dbo.words WHERE word = ?", [word]
        case 1 | 2:
            values = [chance.choice(texts) for texts in (_LATIN, _GREEK, _JAPANESE, _LATIN)]
            return _inserted("words", "word", word, _alike(chance, word), *values, "ab")
        case 3:
            return "UPDATE dbo.words SET word = ? WHERE word = ?", [_alike(chance, word), word]
        case _:
            column, texts = chance.choice(
                (("latin", _LATIN), ("greek", _GREEK), ("japanese", _JAPANESE), ("exact", _LATIN))
            )
            return (
                f"UPDATE dbo.words SET {column} = ? WHERE word = ?",
                [chance.choice(texts), word],
            )


def of_visits(chance: random.Random) -> Statement:
    """A table whose event key the options name; its key has NULL."""
    hour, page = chance.randrange(2_000), chance.choice(("a", "A", "a ", None))
    match chance.randrange(5):
        case 0:
            return "DELETE dbo.visits WHERE hour = ?", [hour]
        case 1:
            return _inserted("visits", "hour", hour, page, hour, 1)
        case 2:
            return "UPDATE dbo.visits SET page = ? WHERE hour = ?", [page, hour]
        case _:
            return "UPDATE dbo.visits SET hits += 1 WHERE hour = ?", [hour]


def of_evolving(chance: random.Random) -> Statement:
    """The table that gets and loses columns."""
    key = chance.randrange(EVOLVING + 1_000)
    match chance.randrange(5):
        case 0:
            return "DELETE dbo.evolving WHERE id = ?", [key]
        case 1:
            return (
                "INSERT dbo.evolving (id, name, amount) SELECT ?, 'new', 1"
                " WHERE NOT EXISTS (SELECT * FROM dbo.evolving WHERE id = ?)",
                [key, key],
            )
        case 2:
            return "UPDATE dbo.evolving SET id = -id WHERE id = ?", [key]
        case 3:
            return (
                "UPDATE dbo.evolving SET amount += 1 WHERE id BETWEEN ? AND ?",
                [key, key + 9],
            )
        case _:
            return "UPDATE dbo.evolving SET name = ? WHERE id = ?", [chance.choice("abc"), key]


def of_clicks(chance: random.Random) -> Statement:
    """A table without a key; its rows are inserted and deleted."""
    page, ms = chance.choice(("a", "A", "a ", None)), chance.choice((0.1, 0.30000000000000004))
    if chance.randrange(3):
        return "INSERT dbo.clicks VALUES (?, ?), (?, ?)", [page, ms, page, ms]
    return "DELETE TOP (1) FROM dbo.clicks WHERE ms < ?", [ms]


CHANGES: Final[tuple[Callable[[random.Random], Statement], ...]] = (
    *(of_kinds, of_accounts, of_people, of_documents, of_readings),
    *(of_sizes, of_words, of_visits, of_evolving),
)
"""All tables but the one without a key, which cannot be compared while it changes."""


def _inserted(table: str, column: str, key: Any, *values: Any) -> Statement:
    """Insert a row unless there is one with the key."""
    marks = ", ".join("?" * len(values))
    return (
        f"INSERT dbo.{table} SELECT {marks}"
        f" WHERE NOT EXISTS (SELECT * FROM dbo.{table} WHERE {column} = ?)",
        [*values, key],
    )


def _alike(chance: random.Random, key: str) -> str:
    """Another text that a collation without case finds equal, or the same."""
    return chance.choice((key, key.upper(), key.lower(), f"{key}  "))


def _moment(chance: random.Random) -> str:
    """A time with milliseconds that datetime and smalldatetime round."""
    return (
        f"2026-01-{chance.randrange(1, 29):02}T{chance.randrange(24):02}:"
        f"{chance.randrange(60):02}:{chance.choice((0, 29, 30, 59)):02}.{chance.randrange(1000):03}"
    )
