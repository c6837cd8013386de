"""The page's pure parts: what it makes of what the parts tell."""

from __future__ import annotations

import time
from dataclasses import replace
from html import escape
from html.parser import HTMLParser

from tailrace.lag.freshness import Freshness, StageLag, TableFreshness
from tailrace.lag.verdict import duration
from tailrace.reading.stopped_tables import PublisherNotes, TableNote
from tailrace.web.model import Model, put_together
from tailrace.web.pages.html import page
from tailrace.web.pages.overview import overview
from tailrace.web.pages.pipeline import slowest_stage
from tailrace.web.pages.table_groups import groups_of
from tailrace.web.pages.table_page import Explorer, table_page
from tailrace.web.parts import publishing
from tailrace.web.strip import BUCKET_MS, BUCKETS, Ledger
from tailrace_schemas.records.progress import PartitionProgress, Progress
from tailrace_schemas.records.signals import PauseSignal, SnapshotSignal
from tailrace_service.status import Backlog, DaemonStatus, Failure, TableStatus

NOW_MS = 1_795_000_000_000
HOSTILE = "dbo.<script>alert('1')</script>\"&"


class Elements(HTMLParser):
    """Start tags with their attributes, and whether every element is closed."""

    VOID = frozenset({"meta", "link", "input", "br"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def daemon(program: str, *tables: TableStatus, state: str = "running") -> DaemonStatus:
    errors = (Failure(NOW_MS, "KafkaUnavailable", f"{HOSTILE} is away"),)
    return DaemonStatus(
        program, state, NOW_MS - 5000, NOW_MS, "shop", "Shop", tables=tables, errors=errors
    )


def shown(seen: Model) -> str:
    return overview(seen, "shop", 2.1)


def fresh(name: str, lake_s: float | None = 0.0) -> TableFreshness:
    return TableFreshness(name, "00000001:00000002:0003", NOW_MS, 0.0, 1.5, lake_s)


def model(count: int = 1, **parts: str) -> Model:
    names = [f"dbo.table_{number}" for number in range(count)] + [HOSTILE]
    stage = StageLag("00000001:00000002:0003", NOW_MS - 240_000, 240.0, 0.0)
    stages = dict.fromkeys(("captured", "topics", "log", "lake"), stage)
    tables = tuple(map(fresh, names))
    freshness = Freshness(
        NOW_MS, 0.5, stages, tables, capture_age_s=1.0, published_ms=NOW_MS - 3000
    )
    publisher = daemon(
        "publisher",
        TableStatus(names[0], "t", "snapshotting", snapshot_rows=25, snapshot_estimate=100),
        TableStatus(HOSTILE, "t", "stopped", reason=f"EncodeError: {HOSTILE}"),
        *(TableStatus(name, "t", "followed") for name in names[1:-1]),
    )
    rows = put_together(freshness, publisher, daemon("sink"), PublisherNotes())
    strip = tuple(Ledger().strip(NOW_MS))
    watched = ("publisher", "sink")
    return Model(freshness, publisher, daemon("sink"), rows, strip, dict(parts), True, watched)


def test_what_needs_somebody_stands_first_and_is_said_at_the_head():
    seen = model(3)
    assert [row.table for row in seen.rows] == [HOSTILE, *(f"dbo.table_{n}" for n in range(3))]
    assert [row.state for row in seen.rows][:3] == ["stopped", "snapshotting", "followed"]
    html = shown(seen)
    assert f"1 of 4 tables cannot continue: {escape(HOSTILE, quote=True)}." in html
    assert "snapshotting 25 of about 100 rows" in html
    assert "KafkaUnavailable" in html


def test_no_text_of_the_source_becomes_an_element():
    seen = model()
    whole = page("shop", shown(seen), "shop · Shop", "2 tables").decode()
    rows = {row.table: row for row in seen.rows}
    detail = table_page(Explorer(HOSTILE, HOSTILE, HOSTILE, HOSTILE), rows[HOSTILE], [])
    for html in (whole, detail):
        elements = Elements(html)
        assert all(a.get("src") == "static/page.js" for a in elements.named("script"))
        assert "alert(" in "".join(elements.text)
        assert not [a for _, a in elements.found if any(name.startswith("on") for name in a)]
        assert not [a for _, a in elements.found if "style" in a]
    assert "(1!) shop" in whole, "the title of the window counts what is not well"
    buttons = [a.get("data-table") for a in Elements(whole).named("button")]
    assert HOSTILE in buttons


def test_each_cell_of_a_table_has_its_heading_for_the_cards_of_a_phone():
    elements = Elements(shown(green()))
    labels = [attributes["data-label"] for attributes in elements.named("td")]
    assert labels[:3] == ["table", "topics behind", "lake's log behind"]
    assert len(labels) == len(elements.named("th"))


def test_a_part_that_does_not_answer_is_named():
    assert "source did not answer: <i>" not in shown(model(source="<i>"))
    assert "source did not answer: &lt;i&gt;" in shown(model(source="<i>"))


def test_a_backlog_has_a_bar_with_pace_and_time_left():
    seen = model()
    assert seen.sink is not None
    carried = Backlog(10, 30, 2.0, 15.0, 8_400_000)
    for backlog, bars in ((None, []), (Backlog(7, 0), []), (carried, ["10"])):
        html = shown(replace(seen, sink=replace(seen.sink, backlog=backlog)))
        found = [a for a in Elements(html).named("progress") if a.get("aria-label") == "backlog"]
        assert [a["value"] for a in found] == bars
        assert ("10 of 40 changes, 2/s, 8.4 MB/s, about 15 s left" in html) is bool(bars)


def test_what_will_be_lost_is_told_before_it_is():
    seen = model()
    for retention_s, is_told in ((None, False), (259_200.0, False), (3.0, True)):
        freshness = replace(seen.freshness, retention_s=retention_s)
        html = shown(replace(seen, freshness=freshness))
        assert ("The source removes what is not published in 0.0 s" in html) is is_told
        assert ("change rows are kept 3.0 d" in html) is (retention_s == 259_200.0)


def test_a_thousand_tables_are_made_in_a_fraction_of_a_second():
    seen = model(1000)
    began = time.thread_time()
    html = shown(seen)
    took_s = time.thread_time() - began
    assert html.count('data-name="dbo.') == 1001
    assert took_s < 0.5


def test_the_gravest_state_wins():
    table = fresh("dbo.a")
    for published, sunk, state in (
        (None, None, "followed"),
        ("followed", "followed", "followed"),
        ("followed", "held", "held"),
        ("followed", "stopped", "stopped"),
        ("lost", "stopped", "lost"),
        ("pending", "followed", "pending"),
    ):
        statuses = [
            None if told is None else daemon(program, TableStatus("DBO.A", "t", told))
            for program, told in (("publisher", published), ("sink", sunk))
        ]
        freshness = Freshness(NOW_MS, None, {}, (table,))
        (row,) = put_together(freshness, statuses[0], statuses[1], PublisherNotes())
        assert (row.table, row.state) == ("dbo.a", state)


def green(publisher: DaemonStatus | None = None) -> Model:
    """Of one table, all well."""
    seen = model(0)
    tables = (fresh("dbo.a"),)
    publisher = publisher or daemon("publisher", TableStatus("dbo.a", "t", "followed"))
    freshness = replace(seen.freshness, tables=tables)
    rows = put_together(freshness, publisher, daemon("sink"), PublisherNotes())
    return replace(seen, freshness=freshness, publisher=publisher, rows=rows)


def test_an_idle_database_is_not_late():
    html = shown(green())
    assert "All is well: 1 table." in html
    assert '<section class="verdict good"' in html
    assert "4 min" not in html, "that its last commit is four minutes old is no lag"


def test_a_lake_that_is_late_is_not_well_though_its_daemon_runs():
    seen = green()
    late = replace(seen.freshness.stages["lake"], lag_s=10_800.0)
    freshness = replace(seen.freshness, stages={**seen.freshness.stages, "lake": late})
    html = shown(replace(seen, freshness=freshness))
    assert '<section class="verdict bad"' in html
    assert "3.0 h behind" in html


def test_what_is_not_watched_is_told_and_not_well():
    seen = replace(green(), publisher=None, watched=("sink",))
    html = shown(seen)
    assert '<section class="verdict warn"' in html
    assert "The publisher is not watched: set metrics_port of the publisher." in html
    assert seen.to_json()["verdict"]["state"] == "warn"


def test_a_stopped_table_stays_stopped_when_its_publisher_is_dead():
    notes = PublisherNotes(
        tables={
            "dbo.a": TableNote("stopped", "The publisher stopped dbo.a: RecordTooLarge: 6 MB"),
            "dbo.b": TableNote("in snapshot, 7 rows"),
            "dbo.c": TableNote("snapshot stopped", "tailrace snapshot dbo.c takes a new one"),
            "dbo.not_captured_now": TableNote("stopped", "of the past"),
        }
    )
    tables = [replace(fresh(f"dbo.{name}"), in_cut=False) for name in "abcd"]
    freshness = Freshness(NOW_MS, 0.0, {}, (*tables, fresh("dbo.e")))
    rows = put_together(freshness, None, daemon("sink", TableStatus("dbo.a", "t", "held")), notes)
    assert [(row.table, row.state, row.is_bad) for row in rows] == [
        ("dbo.a", "stopped", True),
        ("dbo.c", "halted", True),
        ("dbo.b", "snapshotting", False),
        ("dbo.d", "in snapshot or stopped", False),
        ("dbo.e", "followed", False),
    ]
    assert "RecordTooLarge: 6 MB" in rows[0].reason
    assert [row.topic_s for row in rows] == [None, None, None, None, 0.0], "none is up to date"
    away = replace(freshness, tables=(), problems={"source": "away"})
    assert len(put_together(away, None, None, notes)) == 4, "all that is known of"


def test_of_a_fleet_the_publisher_that_has_the_database_is_shown():
    has = green().publisher
    assert has is not None
    starts, stands_by = replace(has, tables=(), state="starting"), replace(has, state="elsewhere")
    assert publishing([stands_by, starts, has]) is has
    assert publishing([stands_by, starts]) is starts
    assert publishing([stands_by]) is stands_by
    assert publishing([]) is None


def test_a_table_that_the_publisher_does_not_list_is_not_up_to_date():
    seen = green()
    tables = (*seen.freshness.tables, fresh("dbo.new"))
    assert seen.publisher is not None
    freshness = replace(seen.freshness, tables=tables)
    rows = put_together(freshness, seen.publisher, seen.sink, PublisherNotes())
    (row,) = [row for row in rows if row.table == "dbo.new"]
    assert (row.state, row.topic_s) == ("not published", None)
    assert replace(seen, freshness=freshness, rows=rows).verdict.state == "warn"
    starting = replace(seen.publisher, tables=(), state="retrying")
    notes = PublisherNotes(tables={"dbo.a": TableNote("stopped", "because")})
    (row,) = put_together(seen.freshness, starting, None, notes)
    assert (row.state, row.reason) == ("stopped", "because")


def record(at_ms: int, after: str, closed: str, rows: int = 0) -> Progress:
    partitions = [PartitionProgress("t", 0, 0, rows, rows, 0, [])] if rows else []
    return Progress(
        shard=0,
        server="s",
        database="d",
        after_lsn=after,
        closed_lsn=closed,
        closed_commit_ms=at_ms,
        closed=True,
        published_ms=at_ms,
        partitions=partitions,
        snapshotting=[],
    )


def test_the_ledger_shows_silence_rows_and_gaps():
    ledger = Ledger()
    first = NOW_MS - (BUCKETS - 1) * BUCKET_MS
    ledger.add(record(first - 10 * BUCKET_MS, "a", "b"))
    ledger.add(record(first, "b", "c", rows=5))
    ledger.add(record(first + BUCKET_MS, "c", "c"))
    ledger.add(record(NOW_MS, "d", "e"))

    strip = ledger.strip(NOW_MS, [(NOW_MS, NOW_MS - 700), (NOW_MS, None)])

    assert len(strip) == BUCKETS
    shown = [bucket for _, bucket in strip]
    assert (shown[0].rows, shown[0].moved, shown[0].broken) == (5, True, [])
    assert (shown[1].records, shown[1].moved, shown[2].records) == (1, False, 0)
    assert (shown[-1].cuts, shown[-1].lake_lag_ms, len(shown[-1].broken)) == (2, 700, 1)
    assert [bucket.lag_ms for bucket in shown[:2]] == [0, None], "an idle record has no lag"
    assert "gap" in shown[-1].broken[0]
    assert dict(ledger.rows_by_topic()) == {"t": 5}


def test_the_ledger_marks_restarts_snapshots_and_schemas():
    ledger = Ledger()
    first = record(NOW_MS, "a", "b", rows=1)
    ledger.add(first, "host:1")
    ledger.add(replace(record(NOW_MS, "b", "c"), snapshotting=["t"]), "host:2")
    changed = record(NOW_MS, "c", "d", rows=1)
    changed.partitions[0].schema_ids = [9]
    ledger.add(replace(changed, snapshotting=["t"]), "host:2")
    (marks,) = [bucket.marks for _, bucket in ledger.strip(NOW_MS) if bucket.marks]
    assert marks == ["publisher restarted: host:2", "left the cut: t", "new schema: t"]
    html = shown(replace(model(), strip=tuple(ledger.strip(NOW_MS))))
    assert "3 restarts, pauses, schemas and snapshots" in html


def test_the_ledger_marks_requests_of_pauses_and_no_other_signal():
    ledger = Ledger()
    earlier_ms = NOW_MS - 2 * BUCKET_MS
    ledger.add_signal(PauseSignal(is_paused=True).to_bytes(), earlier_ms)
    ledger.add_signal(SnapshotSignal(("dbo.a",)).to_bytes(), NOW_MS)
    ledger.add_signal(b"no signal", NOW_MS)
    ledger.add_signal(None, NOW_MS)
    ledger.add_signal(PauseSignal(is_paused=False).to_bytes(), NOW_MS)
    strip = ledger.strip(NOW_MS)
    assert [bucket.marks for _, bucket in strip[-3:]] == [
        ["pause requested"],
        [],
        ["resume requested"],
    ]
    assert not any(bucket.records for _, bucket in strip), "a signal shows no publisher"


def test_tables_are_grouped_by_what_they_need_and_sorted_by_delay():
    rows = [
        replace(row, lake_s=lag_s)
        for row, lag_s in zip(model(4).rows, (None, None, 5.0, 70.0, 700.0), strict=True)
    ]
    groups = {name: [row.table for row in of] for name, of in groups_of(rows).items()}
    assert groups == {
        "stopped": [HOSTILE],
        "behind": ["dbo.table_3", "dbo.table_2"],
        "in snapshot": ["dbo.table_0"],
        "healthy": ["dbo.table_1"],
    }


def test_the_page_of_a_table_names_the_stages_that_are_configured_and_its_fix():
    row = model(1).rows[0]
    explorer = Explorer(row.table)
    without = table_page(explorer, row, [], stages=("captured", "topics"))
    assert ("topics behind" in without, "lake" in without.partition("<section")[0]) == (True, False)
    whole = table_page(explorer, row, [], stages=("captured", "topics", "log", "lake"))
    assert all(f"<dt>{name} behind" in whole for name in ("topics", "lake's log", "lake's tables"))
    assert "Do this: remove the cause, then <code>tailrace snapshot" in whole
    assert '<a href="runbook?name=TableStopped">' in whole


def test_the_verdict_is_judged_once_for_all_parts_of_a_page():
    seen = green()
    assert seen.verdict is seen.verdict
    assert replace(seen, problems={"sink": "away"}).verdict.state == "bad", "of each look its own"


def test_the_slowest_stage_is_the_one_that_adds_most_and_only_over_a_bound():
    def slowest(**lags: float) -> str | None:
        return slowest_stage({name: StageLag("a", 0, 0.0, lag_s) for name, lag_s in lags.items()})

    assert slowest(captured=1.0, topics=50.0, log=60.0, lake=70.0) is None
    assert slowest(captured=0.0, topics=400.0, log=410.0, lake=500.0) == "topics"
    assert slowest(captured=0.0, topics=100.0, log=110.0, lake=900.0) == "lake"


def test_silence_counts_from_the_first_record_on():
    ledger = Ledger()
    ledger.add(record(NOW_MS - 5 * BUCKET_MS, "a", "b"))
    ledger.add(record(NOW_MS, "b", "b"))
    for strip, words in ((ledger.strip(NOW_MS), ", 20 minutes without a"), (Ledger().strip(0), "")):
        html = shown(replace(model(), strip=tuple(strip)))
        assert ("without a progress record" in html, words in html) == (bool(words), True)


def test_durations_are_told_in_the_unit_that_reads_best():
    assert [duration(s) for s in (0.25, 99, 240, 7300, 200_000)] == [
        "0.2 s",
        "99.0 s",
        "4 min",
        "2.0 h",
        "2.3 d",
    ]
