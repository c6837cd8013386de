"""Lake tables move from one source LSN to another, all together."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.fix_envelopes import Source, column
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def two_tables(source: Source):
    planes = source.table(
        "planes",
        column(1, "tail", "nvarchar(10)", key=1),
        column(2, "seats", "smallint"),
        column(3, "hours flown", "decimal(9,2)"),
    )
    flights = source.table(
        "flights",
        column(1, "id", "int", key=1),
        column(2, "tail", "nvarchar(10)"),
        column(3, "at", "datetime2(7)"),
    )
    return planes, flights


def test_several_tables_in_one_cut(source: Source, lake: Lake):
    planes, flights = two_tables(source)
    source.commit(
        lambda t: t.insert(planes, tail="N1", seats=100, **{"hours flown": Decimal("1.50")}),
        lambda t: t.insert(flights, id=1, tail="N1"),
        lambda t: t.insert(flights, id=2, tail="N1"),
    )
    through = source.commit(
        lambda t: t.update(planes, ("N1",), seats=120),
        lambda t: t.delete(flights, (1,)),
    )
    source.publish()

    assert lake.catch_up() == 1

    assert lake.cut() == source.cuts[through]
    (commit,) = lake.commits()
    assert commit["through_lsn"] == through
    assert set(commit["tables"]) == {"shop/dbo/planes", "shop/dbo/flights"}
