"""What the page of a table shows of tailrace verify --continuous, from the file in the lake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.settings.load import load
from tailrace.verify.ranges import EVERYTHING, KeyRange
from tailrace.verify.verified import VerifiedTable, to_json, verified_path
from tailrace.web.details import Details
from tailrace.web.pages.table_page import Explorer, table_page
from tests.unit.tailrace.web.test_page import model

LSN = "00000022:00000038:0002"
NEW = VerifiedTable(7, 1)


def details(lake: str) -> Details:
    options = ("source.host=h", "source.database=db", "source.user=u", "source.password=p")
    shared = ("kafka.bootstrap=localhost:9092", "registry.url=http://localhost:8081", "prefix=air")
    flags = [*(f"publisher.{o}" for o in options), *shared, f"sink.lake={lake}"]
    return Details(load(None, {}, flags))


@pytest.mark.parametrize(
    ("table", "shown"),
    [
        (NEW, "not all rows yet"),
        (NEW.compared(KeyRange(None, 5), 10, 0, LSN), "not all rows yet"),
        (NEW.compared(EVERYTHING, 10, 0, LSN), "every row is as in the source, since"),
        (NEW.compared(EVERYTHING, 10, 1234, None), "1,234 rows differ from the source"),
        (None, None),
    ],
)
def test_the_page_of_a_table_shows_what_the_lake_has(tmp_path: Path, table, shown):
    file = Path(verified_path(str(tmp_path)))
    file.parent.mkdir()
    file.write_text(to_json({"dbo.Orders": table} if table else {}))
    problems: list[str] = []

    found = details(str(tmp_path)).verified("dbo.orders", problems)

    assert (found, problems) == (table, [])
    row = model(1).rows[0]
    html = table_page(Explorer(row.table), row, [], verified=found)
    assert ("<dt>verified</dt>" in html) is (shown is not None)
    assert shown is None or shown in html
    assert ('href="runbook?name=LakeDiffers"' in html) is (shown is not None and "differ" in shown)


def test_without_the_file_nothing_is_shown_and_another_file_is_named(tmp_path: Path):
    problems: list[str] = []
    assert details(str(tmp_path)).verified("dbo.t", problems) is None
    assert details("hdfs://host/lake").verified("dbo.t", problems) is None
    assert problems == []
    (tmp_path / "_tailrace").mkdir()
    (tmp_path / "_tailrace" / "verified.json").write_text("{")
    assert details(str(tmp_path)).verified("dbo.t", problems) is None
    assert "does not have what tailrace verify --continuous writes" in problems[0]
