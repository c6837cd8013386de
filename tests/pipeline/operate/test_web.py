"""tailrace web beside a source, brokers, a registry and a publisher."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest

from tailrace.reading.published import last_published
from tailrace.settings.load import load
from tailrace.settings.settings import Settings, SettingsError
from tailrace.web.collector import Collector
from tailrace.web.daemons import DaemonAddress
from tailrace.web.parts import PartsReader
from tailrace.web.run import WebOptions, WebRefused, serving
from tests.pipeline.conftest import Pipe
from tests.pipeline.operate.test_endpoint import url_of
from tests.pipeline.running import Running, wait_until

pytestmark = pytest.mark.kafka


def settings_of(pipe: Pipe, folder: Path, *, has_lake: bool = True) -> Settings:
    """With a lake that is not there yet, or with none."""
    options = pipe.options()
    shared = {name: options.pop(name) for name in ("registry", "prefix")}
    sink = {"lake": str(folder / "lake"), "kafka": {"bootstrap": options["kafka"]["bootstrap"]}}
    file = folder / "tailrace.json"  # which is YAML
    lake = {"sink": sink} if has_lake else {}
    file.write_text(json.dumps({"publisher": options, **lake, **shared}))
    return load(file, {})


@pytest.mark.slow("a publisher, its page and a snapshot")
def test_the_page_shows_the_pipeline_and_asks_for_a_snapshot(pipe: Pipe, tmp_path: Path):
    pipe.source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, note nvarchar(20))",
        "CREATE TABLE dbo.[<b>'odd]]] (id int PRIMARY KEY)",
        "INSERT dbo.orders VALUES (1, N'first')",
    )
    pipe.source.enable("orders")
    pipe.source.execute(
        "EXEC sys.sp_cdc_enable_table N'dbo', N'<b>''odd]', @role_name = NULL,"
        " @capture_instance = N'odd'"
    )
    with Running(pipe.config(metrics_port=0)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out")
        pipe.source.execute("UPDATE dbo.orders SET note = N'«second»'")
        publisher.until(pipe.is_caught_up, "the change is out")
        options = WebOptions(every_s=0.2, publisher_urls=(url_of(publisher),))
        with (
            serving(settings_of(pipe, tmp_path, has_lake=False), options) as url,
            httpx.Client(base_url=url, trust_env=False, timeout=30) as client,
        ):
            front = client.get("/")
            assert (front.status_code, "All is well: 2 tables." in front.text) == (200, True)
            assert "dbo.&lt;b&gt;&#x27;odd]" in front.text
            assert "<b>" not in front.text
            assert "script-src 'self'" in front.headers["Content-Security-Policy"]
            assert client.get("/fragment").text in front.text or client.get("/fragment").is_success
            for file in ("style.css", "page.js"):
                assert client.get(f"/static/{file}").status_code == 200
            seen = client.get("/model.json").json()
            orders = next(row for row in seen["rows"] if row["table"] == "dbo.orders")
            assert (orders["state"], orders["topic_s"], orders["rows"]) == ("followed", 0.0, 2)
            assert seen["publisher"]["closed_lsn"] == str(pipe.topics.through())
            assert sum(bucket["rows"] for _, bucket in seen["strip"]) == 2

            table = client.get("/table", params={"name": "dbo.orders", "key": "1"}).text
            assert "change:     " in table
            assert "note=&quot;«second»&quot;" in table
            assert "capture instance dbo_orders" in table
            (change,) = pipe.topics.changes(pipe.source.name, "orders")
            lsn = str(change.position.commit_lsn)
            commit = client.get("/table", params={"name": "dbo.orders", "at": lsn}).text
            assert f"change:     {lsn} update in dbo_orders" in commit
            assert f'name="at" value="{lsn}"' in commit
            wrong = client.get("/table", params={"name": "dbo.orders", "at": "<noon>"}).text
            assert "&lt;noon&gt;" in wrong
            assert "is not an LSN. Fix: write" in wrong
            assert "is not a time. Fix: write" in wrong
            odd = client.get("/table", params={"name": "dbo.<b>'odd]", "key": "7"})
            assert (odd.status_code, "no such row" in odd.text) == (200, True)
            assert client.get("/table", params={"name": "dbo.nosuch"}).status_code == 404

            told = front.text + client.get("/model.json").text + table
            told += httpx.get(f"{options.publisher_urls[0]}/status", trust_env=False).text
            assert str(pipe.options()["source"]["password"]) not in told

            before = len(pipe.topics.snapshot(pipe.source.name, "orders"))
            unknown = {"type": "snapshot", "tables": ["dbo.nosuch"]}
            assert client.post("/signal", json=unknown).status_code == 400
            foreign = {"Origin": "http://evil.example"}
            asked = {"type": "snapshot", "tables": ["DBO.orders"]}
            assert client.post("/signal", json=asked, headers=foreign).status_code == 403
            assert client.post("/signal", json=asked).status_code == 202
            partial = {**asked, "where": {"dbo.orders": "id = = 3"}}
            assert client.post("/signal", json=partial).status_code == 202
            publisher.until(
                lambda: len(pipe.topics.snapshot(pipe.source.name, "orders")) == before + 1,
                "it is read again",
            )
            accepted = "new snapshot of dbo.orders: accepted"
            refused = "partial snapshot of dbo.orders: refused: "
            wait_until(
                lambda: all(w in client.get("/fragment").text for w in (accepted, refused)),
                "the outcomes are shown",
                60,
            )
            pauses_are_marked(client)
            events_are_browsed(client)


def pauses_are_marked(client: httpx.Client) -> None:
    for kind in ("pause", "resume"):
        assert client.post("/signal", json={"type": kind}).status_code == 202

    def marks() -> list[str]:
        strip = client.get("/model.json").json()["strip"]
        return [mark for _, bucket in strip for mark in bucket["marks"]]

    requested = ["pause requested", "resume requested"]
    wait_until(lambda: marks()[-2:] == requested, "the pause is marked", 60)


def events_are_browsed(client: httpx.Client) -> None:
    """Newest first, from a time, and of one key; the page says what was searched."""

    def shown(**asked: str) -> tuple[list[str], str]:
        page = client.get("/table", params={"name": "dbo.orders", **asked}).text
        lines, _, rest = page.partition("<pre>")[2].partition("</pre>")
        return re.findall(r"Z  \S+  (\w+) ", lines), lines + rest

    assert shown(since="")[0] == ["read", "update", "read"]
    assert shown(of="1")[0] == ["read", "update", "read"]
    assert shown(of='{"ID": 1}', since="2000-01-01")[0] == ["read", "update", "read"]
    assert "Everything asked for was searched: 3 records" in shown(of="2")[1]
    assert "no events" in shown(since="2099-01-01")[1]
    assert "is not a time. Fix: write ISO 8601" in shown(since="noon")[1]


def test_a_stopped_table_is_told_from_the_topics_when_no_publisher_answers(
    pipe: Pipe, tmp_path: Path
):
    for table in ("keeps", "loses"):
        pipe.source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY)")
        pipe.source.enable(table)
    with Running(pipe.config(metrics_port=0)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out")
        stop = f"{url_of(publisher)}/stop-table"
        asked = {"tables": ["dbo.loses"]}
        assert httpx.post(stop, json=asked, trust_env=False).status_code == 202

        def is_out_of_the_cut() -> bool:
            record = last_published(pipe.config())
            return record is not None and bool(record.snapshotting)

        publisher.until(is_out_of_the_cut, "it is stopped")
    pipe.source.execute("INSERT dbo.loses VALUES (1)")
    pipe.source.scan()

    nobody = PartsReader(settings_of(pipe, tmp_path), [], None).read()

    row = nobody.rows[0]
    assert (row.table, row.state, row.topic_s) == ("dbo.loses", "stopped", None)
    assert "The publisher stopped dbo.loses: " in row.reason
    state, sentences = nobody.verdict.state, nobody.verdict.sentences
    assert (state, sentences[0]) == ("bad", "1 of 2 tables cannot continue: dbo.loses.")
    for told in ("The publisher is not watched", "The sink is not watched", "Nothing has reached"):
        assert any(sentence.startswith(told) for sentence in sentences), sentences
    assert nobody.freshness.stages["topics"].lag_s == 0.0, "only the stopped table has changes"

    pipe.source.execute("INSERT dbo.keeps VALUES (1)")
    pipe.source.scan()
    gone = [DaemonAddress("http://127.0.0.1:1")]
    late = PartsReader(settings_of(pipe, tmp_path, has_lake=False), gone, None).read()
    assert (late.rows[0].state, late.verdict.state) == ("stopped", "bad")
    assert "publisher did not answer" in late.verdict.sentences[0]
    assert late.freshness.stages["topics"].lag_s is not None
    assert 0.0 < late.freshness.stages["topics"].lag_s < 600.0


def test_while_nobody_looks_the_parts_are_left_alone_until_somebody_does(
    pipe: Pipe, tmp_path: Path
):
    collector = Collector(settings_of(pipe, tmp_path), [], None, every_s=0.01, watched_s=0.0)
    collector.start()
    try:
        wait_until(lambda: collector.is_resting, "nobody asks for it", 30)
        seen = collector.model()
        assert seen is not None
        wait_until(lambda: collector.model() is not seen, "it looks again", 20)
    finally:
        collector.close()


def test_who_may_see_it_and_what_cannot_be_served(pipe: Pipe, tmp_path: Path):
    settings, token = settings_of(pipe, tmp_path), tmp_path / "token"
    with (
        pytest.raises(WebRefused, match="give --token-file"),
        serving(settings, WebOptions("0.0.0.0")),  # noqa: S104 - that is the case
    ):
        pass
    token.write_text("a-token-of-this-test\n")
    with serving(settings, WebOptions("0.0.0.0", token_file=token)) as url:  # noqa: S104
        local = url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        assert httpx.get(f"{local}static/style.css", trust_env=False).status_code == 401
        browser = ("anybody", "a-token-of-this-test")
        style = httpx.get(f"{local}static/style.css", auth=browser, trust_env=False)
        assert style.headers["Content-Type"].startswith("text/css")
    with pytest.raises(SettingsError), serving(load(None, {}), WebOptions()):
        pass
