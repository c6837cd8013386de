"""The order of day, month and year in texts, for the older and the newer types."""

from __future__ import annotations

import pytest

from tailrace_emulator.values.date_order import arranged

OLD, NEW = True, False


@pytest.mark.parametrize(
    ("text", "order", "legacy", "expected"),
    [
        ("01/02/03", "mdy", OLD, ("03", "01", "02")),
        ("01/02/03", "dym", NEW, ("02", "03", "01")),
        ("01/02/2003", "dmy", NEW, ("2003", "02", "01")),
        ("01/02/2003", "ymd", NEW, ("2003", "01", "02")),
        ("01/02/2003", "ydm", OLD, ("2003", "02", "01")),
        ("2003/01/02", "dmy", OLD, ("2003", "02", "01")),
        ("2003/01/02", "dmy", NEW, ("2003", "01", "02")),
        ("01/2003/02", "mdy", OLD, ("2003", "01", "02")),
        ("01/2003/02", "dym", NEW, ("2003", "02", "01")),
        ("01/02/03", "ydm", NEW, None),
        ("01/02/2003", "ydm", NEW, None),
        ("01/02/2003", "myd", NEW, None),
        ("01/2003/02", "mdy", NEW, None),
        ("2003/2004/01", "mdy", OLD, None),
        ("101/02/03", "mdy", OLD, None),
    ],
)
def test_three_numbers_are_year_month_and_day(text, order, legacy, expected):
    first, second, third = text.split("/")
    if expected is None:
        with pytest.raises(ValueError, match="'"):
            arranged((first, second, third), order, legacy=legacy, is_iso=False)
    else:
        found = arranged((first, second, third), order, legacy=legacy, is_iso=False)
        assert found == expected


def test_a_session_reads_dates_in_its_own_order(sql, other):
    query = "DECLARE @d varchar(10) = '01/02/2003'; SELECT MONTH(@d), MONTH('01/02/2003')"
    sql("SET DATEFORMAT dmy")
    for _ in range(2):
        assert sql(query).rows == [(2, 2)]
        assert other(query).rows == [(1, 1)]
    sql.runner.reset()
    assert sql(query).rows == [(1, 1)]
