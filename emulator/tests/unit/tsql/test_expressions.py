"""Values of expressions."""

from __future__ import annotations

import pytest

TEXTS = [
    ("7 / 2", "3"),
    ("-7 / 2", "-3"),
    ("-7 % 3", "-1"),
    ("7.0 / 2", "3.500000"),
    ("2.0 / 3", "0.666666"),
    ("1.5 * 1.5", "2.25"),
    ("CAST(2.675 AS decimal(5,2))", "2.68"),
    ("CAST(-2.675 AS decimal(5,2))", "-2.68"),
    ("CAST(2.9 AS int)", "2"),
    ("CAST($2.9 AS int)", "3"),
    ("CAST(2.9e0 AS int)", "2"),
    ("CAST('  12  ' AS int)", "12"),
    ("CAST('' AS int)", "0"),
    ("CAST('1.25' AS decimal(5,2))", "1.25"),
    ("CAST(1.5 AS float)", "1.5"),
    ("CAST(1234567890123456789 AS decimal(30,5)) * 2", "2469135780246913578.00000"),
    ("99999999999999999999.5 + 0.5", "100000000000000000000.0"),
    ("-(99999999999999999999.5)", "-99999999999999999999.5"),
    ("$10 / 4", "2.50"),
    ("$1.2345", "1.23"),
    ("CONVERT(varchar(20), $1234.5678, 1)", "1,234.57"),
    ("CONVERT(varchar(20), $1234.5678, 2)", "1234.5678"),
    ("5 & 3", "1"),
    ("5 | 3", "7"),
    ("5 ^ 3", "6"),
    ("~5", "-6"),
    ("'a' + 'b'", "ab"),
    ("CONCAT('a', NULL, 1, 2.5)", "a12.5"),
    ("CONCAT_WS('-', 'a', NULL, 'b')", "a-b"),
    ("LEN('ab  ')", "2"),
    ("DATALENGTH(N'ab')", "4"),
    ("UPPER('ab') + LOWER('CD')", "ABcd"),
    ("LTRIM('  a') + RTRIM('b  ') + TRIM('  c  ')", "abc"),
    ("LEFT('abc', 2) + RIGHT('abc', 1)", "abc"),
    ("SUBSTRING('abcdef', 0, 3)", "ab"),
    ("SUBSTRING('abcdef', 3, 10)", "cdef"),
    ("REPLACE('aXbx', 'x', '-')", "a-b-"),
    ("CHARINDEX('B', 'abc')", "2"),
    ("PATINDEX('%c%', 'abcd')", "3"),
    ("REPLICATE('ab', 3)", "ababab"),
    ("REVERSE('abc')", "cba"),
    ("STUFF('abcdef', 2, 3, 'XY')", "aXYef"),
    ("QUOTENAME('a]b')", "[a]]b]"),
    ("ASCII('A')", "65"),
    ("CHAR(65)", "A"),
    ("NCHAR(8364)", "€"),
    ("STR(3.14159, 6, 2)", "  3.14"),
    ("ABS(-5)", "5"),
    ("SIGN(-2.5)", "-1.0"),
    ("CEILING(1.2)", "2"),
    ("FLOOR(-1.2)", "-2"),
    ("ROUND(123.456, 2)", "123.460"),
    ("ROUND(123.456, -1)", "120.000"),
    ("ROUND(150, -2)", "200"),
    ("ROUND(123.456, 1, 1)", "123.400"),
    ("POWER(2, 10)", "1024"),
    ("SQRT(16)", "4"),
    ("DATEADD(month, 1, CAST('2020-01-31' AS date))", "2020-02-29"),
    ("DATEADD(day, -1, CAST('2020-03-01' AS datetime2(0)))", "2020-02-29 00:00:00"),
    ("DATEADD(minute, 90, CAST('23:00' AS time(0)))", "00:30:00"),
    ("DATEDIFF(month, '2020-01-31', '2020-02-01')", "1"),
    ("DATEDIFF(year, '2019-12-31', '2020-01-01')", "1"),
    ("DATEDIFF(week, '2020-09-12', '2020-09-13')", "1"),
    ("DATEDIFF(second, '2020-01-01', '2020-01-02')", "86400"),
    ("DATEPART(weekday, '2020-09-13')", "1"),
    ("DATEPART(iso_week, '2021-01-01')", "53"),
    ("DATENAME(month, '2020-09-13')", "September"),
    ("YEAR('2020-09-13')", "2020"),
    ("EOMONTH('2020-02-10')", "2020-02-29"),
    ("DATEFROMPARTS(2020, 2, 29)", "2020-02-29"),
    ("DATETIME2FROMPARTS(2020, 1, 2, 3, 4, 5, 6, 1)", "2020-01-02 03:04:05.6"),
    ("CONVERT(varchar(30), GETDATE(), 120)", "2020-09-13 12:26:40"),
    ("CONVERT(varchar(30), GETDATE(), 126)", "2020-09-13T12:26:40"),
    ("CONVERT(varchar(30), GETDATE())", "Sep 13 2020 12:26PM"),
    ("CONVERT(varchar(30), GETDATE(), 101)", "09/13/2020"),
    ("CONVERT(varchar(30), GETDATE(), 112)", "20200913"),
    ("CONVERT(date, '13/09/2020', 103)", "2020-09-13"),
    ("CAST('2020-01-01 10:11:12.997' AS datetime)", "Jan  1 2020 10:11AM"),
    (
        "CONVERT(varchar(40), CAST('2020-01-01 10:11:12.998' AS datetime), 121)",
        "2020-01-01 10:11:12.997",
    ),
    (
        "CAST(CAST('2020-01-01 00:00:00.003' AS datetime) AS datetime2(7))",
        "2020-01-01 00:00:00.0033333",
    ),
    ("CAST('2020-01-01T10:00:00+02:00' AS datetimeoffset(0))", "2020-01-01 10:00:00 +02:00"),
    (
        "SWITCHOFFSET(CAST('2020-01-01T10:00:00+02:00' AS datetimeoffset(0)), '+00:00')",
        "2020-01-01 08:00:00 +00:00",
    ),
    ("TODATETIMEOFFSET(CAST('2020-01-01' AS datetime2(0)), 60)", "2020-01-01 00:00:00 +01:00"),
    ("GETDATE() - 1", "Sep 12 2020 12:26PM"),
    ("CAST('0001-01-01' AS datetime2(7))", "0001-01-01 00:00:00.0000000"),
    ("CAST('9999-12-31 23:59:59.9999999' AS datetime2(7))", "9999-12-31 23:59:59.9999999"),
    ("CONVERT(varchar(10), 0x0A0B, 1)", "0x0A0B"),
    ("CONVERT(varchar(10), CONVERT(varbinary(4), '0x0A0B', 1), 2)", "0A0B"),
    ("CAST(CAST(258 AS varbinary(4)) AS int)", "258"),
    (
        "CAST('6F9619FF-8B86-D011-B42D-00C04FC964FF' AS uniqueidentifier)",
        "6F9619FF-8B86-D011-B42D-00C04FC964FF",
    ),
    ("CAST('abc' AS char(5)) + '|'", "abc  |"),
    ("COALESCE(NULL, 'x')", "x"),
    ("ISNULL(NULL, 5)", "5"),
    ("CHOOSE(2, 'a', 'b')", "b"),
    ("CASE 3 WHEN 1 THEN 'a' WHEN 3 THEN 'c' END", "c"),
    ("TRY_CAST('x' AS int)", None),
    ("TRY_CONVERT(date, '2020-02-30')", None),
    ("NULL + 1", None),
    ("'a' + NULL", None),
    ("NULLIF('a', 'A')", None),
    ("GREATEST(1, 3, 2)", "3"),
    ("LEAST('b', 'A')", "A"),
    ("ISNUMERIC('1e5')", "1"),
    ("ISDATE('2020-13-01')", "0"),
    ("CAST(0.1 AS float) + 0.2", "0.3"),
    ("CAST(1e300 AS float)", "1e+300"),
    ("CAST(1234567 AS float)", "1.23457e+006"),
    ("PARSENAME('a.b.c', 1)", "c"),
    ("TRANSLATE('abc', 'ab', 'xy')", "xyc"),
    ("@@TRANCOUNT", "0"),
    ("DB_NAME()", "shop"),
]


@pytest.mark.parametrize(("expression", "expected"), TEXTS)
def test_value(calculator, expression, expected):
    assert calculator.text(expression) == expected


CONDITIONS = [
    ("'a' = 'A'", True),
    ("'a  ' = 'a'", True),
    ("N'é' = 'e'", False),
    ("'a' COLLATE Latin1_General_CS_AS = 'A'", False),
    ("'abc' LIKE 'A%'", True),
    ("'abc' LIKE '[a-c]b_'", True),
    ("'a%c' LIKE 'a!%c' ESCAPE '!'", True),
    ("'abc' NOT LIKE '%z%'", True),
    ("NULL = NULL", False),
    ("1 IN (2, NULL)", False),
    ("1 NOT IN (2, NULL)", False),
    ("1 IN (1, NULL)", True),
    ("2 BETWEEN 1 AND 3", True),
    ("0x01 = 0x0100", True),
    ("0x01 < 0x0101", True),
    ("1 = '1'", True),
    ("1.0 = 1", True),
    ("CAST('2020-01-01' AS date) = '20200101'", True),
    ("1 < ALL (SELECT 2 UNION ALL SELECT 3)", True),
    ("1 = ANY (SELECT 2 UNION ALL SELECT 1)", True),
    ("1 > ALL (SELECT 1 WHERE 1 = 0)", True),
    ("EXISTS (SELECT 1 WHERE 1 = 0)", False),
    ("(SELECT 5) = 5", True),
    ("NOT (1 = 2 OR NULL = 1)", False),
]


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS)
def test_condition(calculator, condition, expected):
    assert bool(calculator.value(f"CASE WHEN {condition} THEN 1 ELSE 0 END")) is expected


ERRORS = [
    ("1 / 0", 8134),
    ("1.0 / 0", 8134),
    ("1e0 / 0", 8134),
    ("2147483647 + 1", 8115),
    ("CAST(9223372036854775807 AS bigint) + 1", 8115),
    ("CAST(300 AS tinyint)", 220),
    ("CAST(3000000000 AS int)", 8115),
    ("CAST('abc' AS int)", 245),
    ("CAST('99999999999' AS int)", 248),
    ("CAST('abc' AS decimal(5,2))", 8114),
    ("CAST('abc' AS date)", 241),
    ("CAST('abc' AS uniqueidentifier)", 8169),
    ("CAST(1000 AS decimal(3,1))", 8115),
    ("CAST(GETDATE() AS uniqueidentifier)", 529),
    ("CAST(1 AS date)", 529),
    ("CAST('2020-01-01' AS date) + 1", 206),
    ("'a' - 'b'", 8117),
    ("nosuch(1)", 195),
    ("dbo.nosuch(1)", 4121),
    ("LEN()", 174),
    ("x", 207),
    ("a.x", 4104),
    ("@x", 137),
    ("(SELECT 1 UNION ALL SELECT 2)", 512),
    ("(SELECT 1, 2)", 116),
    ("SQRT(-1)", 3623),
    ("SQUARE(1e200)", 3623),
    ("DEGREES(1e308)", 3623),
    ("1e309", 168),
    ("SUBSTRING('a', 1, -1)", 537),
    ("DATEADD(year, 8000, GETDATE())", 517),
    ("CONVERT(varchar(10), GETDATE(), 999)", 281),
    ("FORMAT(1, 'N', 'de-DE')", 50900),
    ("CHECKSUM(1)", 50900),
]


@pytest.mark.parametrize(("expression", "number"), ERRORS)
def test_error(calculator, expression, number):
    assert calculator(f"SELECT {expression}").errors == [number]


def test_a_conversion_that_case_shields_does_not_fail(sql):
    assert sql.value("CASE WHEN 1 = 2 THEN CAST('abc' AS int) ELSE 5 END") == 5


def test_texts_with_the_characters_of_plans(sql):
    assert sql.value("'a?1 b\x01 c'") == "a?1 b\x01 c"


def test_a_function_tells_one_time_within_a_statement(sql):
    ((first, second),) = sql("SELECT SYSUTCDATETIME(), SYSUTCDATETIME()").rows
    assert first == second
