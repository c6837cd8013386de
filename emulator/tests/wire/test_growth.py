"""A server that runs for long stays as large as it is: what is gone leaves nothing.

What is kept on purpose (trees and plans of recent statements, conversions) is bounded, and full
before the second half begins.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

GROWTH_MAX = 10_000_000
"""Bytes that the second half may take, whatever the number of statements."""

Texts = Callable[[int], list[str]]


def statements(n: int) -> list[str]:
    """Ten statements that no other n has."""
    return [
        f"SELECT {n} AS a, 'x{n}' AS b, v FROM dbo.t WHERE id < {n}",
        f"SELECT CAST(id AS varchar({n % 8000 + 1})), TRY_CAST(v AS decimal({n % 30 + 8},2))"
        f" FROM dbo.t WHERE id <= {n}",
        f"SELECT id AS a{n}, v AS [b.c{n}] FROM dbo.t FOR JSON PATH",
        f"SELECT id AS a{n}, v AS b{n} FROM dbo.t FOR XML PATH('r{n}')",
        f"INSERT INTO dbo.t VALUES ({n} + 10, CAST({n} AS varchar(9)));"
        f" DELETE FROM dbo.t WHERE id = {n} + 10",
        f"DECLARE @x int = {n}; SET @x += {n}; UPDATE dbo.t SET v = @x WHERE id = 1",
        f"DECLARE @t TABLE (a{n} int, b varchar(20)); INSERT @t SELECT id, v FROM dbo.t;"
        " SELECT * FROM @t",
        f"EXEC sp_executesql N'SELECT @p + {n}', N'@p int', @p = {n}",
        f"BEGIN TRY SELECT 1 / 0, {n} END TRY BEGIN CATCH SELECT ERROR_MESSAGE(), {n} END CATCH",
        f"BEGIN TRAN a{n}; UPDATE dbo.t SET v = 'q{n}' WHERE id = 2; ROLLBACK",
    ]


def objects(n: int) -> list[str]:
    """Objects of each kind, made, used and dropped."""
    return [
        f"CREATE TABLE dbo.t{n} (id int IDENTITY PRIMARY KEY, v varchar({n % 90 + 9}),"
        " d decimal(9, 2) DEFAULT 1 CHECK (d < 100), c AS d * 2)",
        f"INSERT INTO dbo.t{n} (v) SELECT id FROM dbo.t;"
        f" SELECT v, CAST(d AS varchar(30)) AS e FROM dbo.t{n} FOR JSON PATH",
        f"CREATE FUNCTION dbo.f{n} (@a int) RETURNS int AS BEGIN RETURN @a + {n} END",
        f"SELECT dbo.f{n}(id) FROM dbo.t",
        f"CREATE VIEW dbo.v{n} AS SELECT id, v FROM dbo.t{n}",
        f"SELECT * FROM dbo.v{n}",
        f"CREATE SEQUENCE dbo.s{n} AS int; SELECT NEXT VALUE FOR dbo.s{n}",
        f"CREATE TABLE #t{n} (a int); INSERT INTO #t{n} VALUES ({n}); DROP TABLE #t{n}",
        f"DROP VIEW dbo.v{n}; DROP FUNCTION dbo.f{n}; DROP SEQUENCE dbo.s{n}; DROP TABLE dbo.t{n}",
    ]


def databases(n: int) -> list[str]:
    """A database, made, used and dropped."""
    return [
        f"CREATE DATABASE d{n}",
        f"CREATE TABLE d{n}.dbo.x (a varchar(9)); INSERT INTO d{n}.dbo.x SELECT id FROM dbo.t",
        f"DROP DATABASE d{n}",
    ]


@pytest.fixture
def grown(emulator) -> Iterator[Callable[[Texts, int], int]]:
    """Runs texts for 0..count and returns by how many bytes the server grew in the second half."""
    emulator.create_database("shop")
    connection = emulator.connect("shop")
    connection.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v varchar(50))")
    connection.execute("INSERT INTO dbo.t VALUES (1, '1'), (2, '2')")
    numbers = itertools.count()

    def resident() -> int:
        pages = Path(f"/proc/{emulator.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def run(texts: Texts, count: int) -> None:
        for n in itertools.islice(numbers, count):
            for text in texts(n):
                cursor = connection.execute(text)
                while cursor.nextset():
                    pass

    def measure(texts: Texts, count: int) -> int:
        run(texts, count // 2)
        before = resident()
        run(texts, count - count // 2)
        return resident() - before

    return measure


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")


@needs_proc
@pytest.mark.slow("ten thousand statements and a thousand objects, twice")
def test_ten_thousand_statements_and_a_thousand_objects_leave_nothing(grown):
    assert grown(statements, 1000) < GROWTH_MAX
    assert grown(objects, 1000) < GROWTH_MAX
    assert grown(databases, 100) < GROWTH_MAX


@needs_proc
def test_formats_and_conversions_leave_nothing_with_their_statements(grown):
    # The caches of trees and of prepared statements fill at once, as the texts are long.
    padding = "-" * 2000

    def texts(n: int) -> list[str]:
        wide = ", ".join(f"v AS name_of_column_{n}_{k}" for k in range(60))
        return [
            f"SELECT {wide} FROM dbo.t FOR JSON PATH --{padding}",
            f"SELECT {wide} FROM dbo.t FOR XML PATH --{padding}",
        ]

    # 700 specs of 60 names each took 7 MB.
    assert grown(texts, 700) < 3_000_000
