"""When a row differs, and what of it is shown."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from tailrace.verify.canonical_text import CanonicalColumn
from tailrace.verify.compare import window
from tailrace.verify.page import verification_page
from tailrace.verify.report import (
    difference_text,
    exit_code,
    verification_json,
    verification_lines,
)
from tailrace.verify.row_differences import HIDDEN, Kind, RowDifference, row_difference
from tailrace.verify.table_result import TableResult
from tailrace.verify.table_shape import TableShape
from tailrace.verify.verify import Verification
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

ID = CanonicalColumn("id", "[id]", "`id`")
NAME = CanonicalColumn("name", "[name]", "`name`", is_free=True)
PAY = CanonicalColumn("pay", "[pay]", "`pay`", is_free=True, is_hidden=True)
SHAPE = TableShape(
    TableName("shop", "dbo", "t"), (), (ID, NAME, PAY), (ID,), ("[id] = ?",), (), False
)
ROW = ("1", "a", "***")


@pytest.mark.parametrize(
    ("source", "lake", "kind", "columns"),
    [
        (ROW, [ROW], None, None),
        (None, [], None, None),
        (ROW, [], Kind.MISSING, {}),
        (None, [ROW], Kind.SURPLUS, {}),
        (ROW, [ROW, ROW], Kind.SURPLUS, {}),
        (ROW, [("1", "a ", "***")], Kind.VALUE, {"name": ("a", "a ")}),
        (ROW, [("1", "A", "***")], Kind.VALUE, {"name": ("a", "A")}),
        (("1", None, "***"), [("1", "", "***")], Kind.VALUE, {"name": (None, "")}),
        (ROW, [("1", "a", "4000")], Kind.VALUE, {"pay": (HIDDEN, HIDDEN)}),
    ],
)
def test_a_row_differs_by_its_texts(source, lake, kind, columns):
    found = row_difference(SHAPE, ("1",), source, lake)
    assert (found and found.kind, found and found.columns) == (kind, columns)
    assert "4000" not in ("" if found is None else difference_text(found))


@pytest.mark.parametrize(
    ("started", "reached", "cut", "between"),
    [(2, 3, 4, (2, 4)), (2, 4, 3, (2, 4)), (3, 4, 2, (2, 4)), (2, 2, 2, (2, 2))],
)
def test_changes_between_read_and_cut_matter_whichever_is_first(started, reached, cut, between):
    found = window(*(Lsn(n, 0, 0) for n in (started, reached, cut)))
    assert found == tuple(Lsn(n, 0, 0) for n in between)


@pytest.mark.parametrize(
    ("table", "code"),
    [
        (TableResult("dbo.t"), 0),
        (TableResult("dbo.t", unsettled=1), 4),
        (TableResult("dbo.t", not_examined=1), 4),
        (TableResult("dbo.t", problem="it is not in the cut"), 4),
    ],
)
def test_only_a_whole_comparison_is_equal(table, code):
    found = Verification("shop", "/lake", [TableResult("dbo.a"), table])
    assert exit_code(found) == code
    assert (code == 0) == (verification_lines(found)[-1].endswith("2 tables are equal."))


def test_a_difference_counts_for_more_than_what_was_not_compared():
    differs = TableResult("dbo.t", unsettled=3)
    differs.differing["value"] += 1
    assert exit_code(Verification("shop", "/lake", [differs])) == 3


def test_the_page_has_everything_that_was_found_and_needs_no_other_file():
    table = TableResult("dbo.<t>", lsn="00000022:00000e90:0003", source_rows=1_000, lake_rows=999)
    table.differing.update(value=2, missing=1)
    table.unsettled = 4
    table.examples = [
        RowDifference(Kind.VALUE, {"id": "1"}, {"name": ("<b>a</b>", None), "pay": (HIDDEN,) * 2}),
        RowDifference(Kind.MISSING, {"id": "\ud800"}),
    ]
    page = verification_page(Verification("shop", "/lake", [table]), "2026-11-27 20:00:00 UTC")
    seen = Page()
    seen.feed(page)

    assert page.encode()
    assert seen.tags <= Page.KNOWN
    assert seen.attributes <= {"lang", "charset", "name", "content", "class"}
    for text in ("Rows differ.", "dbo.<t>", "1,000", "999", "<b>a</b>", "NULL", "id = \\ud800"):
        assert text in seen.texts, text
    assert seen.texts.count(HIDDEN) == 2
    assert any("4 rows changed during each comparison" in text for text in seen.texts)
    equal = verification_page(Verification("shop", "/lake", [TableResult("dbo.t")]), "now")
    assert "All rows are equal." in equal
    assert "<h2>" not in equal


class Page(HTMLParser):
    """What a page consists of."""

    KNOWN = frozenset(
        {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "strong", "ul", "li"}
        | {"table", "thead", "tbody", "tr", "th", "td"}
    )

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.attributes, self.texts = set[str](), set[str](), list[str]()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.texts.append(data)


def test_json_counts_differences_by_kind():
    table = TableResult("dbo.t", examples=[RowDifference(Kind.MISSING, {"id": "1"})])
    table.differing["missing"] += 7
    found = json.loads(verification_json(Verification("shop", "/lake", [table])))
    assert (found["differs"], found["is_proven"]) == (True, False)
    assert found["tables"][0]["differing"] == {"missing": 7, "surplus": 0, "value": 0}
    assert found["tables"][0]["examples"][0]["kind"] == "missing"
