"""Names that whoever may make a table chooses: from the source to topics, answers and page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tailrace.reading.terminal import shown
from tailrace.web.run import WebOptions, serving
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.operate.test_endpoint import url_of
from tests.pipeline.operate.test_web import settings_of
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

SCRIPT = "<script>document.title=1</script>"
IMAGE = "<img src=x onerror=document.title=1>"
TABLES = (
    ("dbo", "a]b[c]]d"),
    ("dbo", 'it\'s "odd"; DROP TABLE dbo.[SELECT] --'),
    ("my.schema", "with.two.dots"),
    ("dbo", "SELECT"),
    ("dbo", "Tâble 漢字 😀"),
    ("dbo", f"[/red]{IMAGE}"),
    ("dbo", f"'\"{SCRIPT}"),
    ("dbo", "x\x1b]0;owned\x07\x1b[2J\ny\u202ez"),
    ("dbo", "long_" + "n" * 123),
)
COLUMNS = ("a]b", "quote\"d'", "`tick`", "dot.ted", "SELECT", "[/b]", SCRIPT, "c\x1b[8m", "n" * 128)


def quoted(*names: str) -> str:
    return ".".join(f"[{name.replace(']', ']]')}]" for name in names)


def text(value: str) -> str:
    return "N'" + value.replace("'", "''") + "'"


class Page(HTMLParser):
    """The elements of a page and their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def is_ours(self) -> bool:
        """Whether there is nothing but what the page itself puts there."""
        scripts = [a.get("src") for tag, a in self.found if tag == "script"]
        handlers = [name for _, a in self.found for name in a if name.startswith("on")]
        return (scripts, handlers) == (["static/page.js"], []) and not any(
            tag in {"img", "iframe", "object", "base"} for tag, _ in self.found
        )


@pytest.fixture
def hostile(pipe: Pipe) -> Pipe:
    """The tables, each with a row and its columns; a last one is not captured."""
    columns = ", ".join(f"{quoted(name)} nvarchar(40)" for name in COLUMNS)
    pipe.source.execute(
        "CREATE SCHEMA [my.schema]",
        "CREATE TABLE [my.schema].[left.out] (id int PRIMARY KEY)",
    )
    for number, (schema, table) in enumerate(TABLES):
        values = ", ".join(f"N'{place}'" for place in range(len(COLUMNS)))
        pipe.source.execute(
            f"CREATE TABLE {quoted(schema, table)} ([the]] key] int PRIMARY KEY, {columns})",
            f"EXEC sys.sp_cdc_enable_table {text(schema)}, {text(table)}, @role_name = NULL,"
            f" @capture_instance = N'odd]{number}'",
            f"INSERT {quoted(schema, table)} VALUES (1, {values})",
        )
    return pipe


@pytest.mark.slow("each command is run on each of the names")
def test_every_name_is_data_on_its_whole_way(hostile: Pipe, tmp_path: Path):
    source, names = hostile.source, [f"{schema}.{table}" for schema, table in TABLES]
    with Running(hostile.config(metrics_port=0)) as publisher:
        publisher.until(hostile.is_caught_up, "the snapshots are out")
        for table in TABLES:
            source.execute(f"UPDATE {quoted(*table)} SET {quoted(COLUMNS[0])} = N'<b>new'")
        publisher.until(hostile.is_caught_up, "the changes are out")

        def said(command: str, *arguments: str) -> str:
            answer = invoke(hostile, tmp_path, command, *arguments)
            assert answer.exit_code == 0, answer.output
            assert not set("\x1b\x07\u202e") & set(answer.output), answer.output
            return answer.output

        events = [json.loads(line) for line in said("tail", "--json").splitlines()]
        assert {e["table"] for e in events} == set(names)
        changed = next(e for e in events if e["op"] == "u")
        assert [changed["after"][name] for name in COLUMNS] == ["<b>new", *"12345678"]
        assert len(said("tail").splitlines()) == len(events) == 2 * len(TABLES)
        for table, name in zip(TABLES, names, strict=True):
            assert "a]b" in said("explain", quoted(*table), "1")
            assert len(said("tail", quoted(*table)).splitlines()) == 2
            assert "version 1 (id " in said("schema", quoted(*table))
            assert shown(name) in said("snapshot", "--wait", "0", name)
        for command in ("lag", "status"):
            told = {row["table"] for row in json.loads(said(command, "--json"))["tables"]}
            assert told == set(names)
            assert "[/red]" in "".join(said(command).split("│"))
        said("audit")
        planned = said("enable", "[my.schema].[left.out]", "--role", "r]o'le")
        assert "@source_schema = N'my.schema', @source_name = N'left.out'" in planned
        granted = said("grants", "--user", "u]s'er")
        for name in (quoted(*table) for table in TABLES):
            assert f"GRANT SELECT ON {name} TO [u]]s'er]" in granted or not name.isprintable()
        assert (
            "N'my.schema', @source_name = N'left.out'" in invoke(hostile, tmp_path, "doctor").output
        )

        page = WebOptions(every_s=0.2, publisher_urls=(url_of(publisher),))
        with (
            serving(settings_of(hostile, tmp_path), page) as url,
            httpx.Client(base_url=url, trust_env=False, timeout=30) as client,
        ):
            front = client.get("/").text
            assert Page(front).is_ours()
            for name in names:
                assert escape(name, quote=True) in front
                seen = client.get("/table", params={"name": name, "key": "1"})
                assert (seen.status_code, "change:     " in seen.text) == (200, True), name
                assert "capture instance odd]" in seen.text
                assert Page(seen.text).is_ours()
            reflected = client.get("/table", params={"name": SCRIPT, "key": IMAGE})
            assert Page(reflected.text).is_ours()
            path = f"table?name={quote(names[5])}&key={quote(IMAGE)}"
            _look_with_a_browser(url, path, hostile.topics.prefix, tmp_path)


def _look_with_a_browser(url: str, table: str, prefix: str, folder: Path) -> None:
    """What a real browser makes of the pages; nothing where there is none."""
    program = shutil.which("chromium")
    if program is None:
        return
    for path, title in (("", prefix), (table, f"dbo.{TABLES[5][1]}")):
        seen = subprocess.run(
            [
                *(program, "--headless", "--no-sandbox", "--disable-gpu", "--no-proxy-server"),
                *(f"--user-data-dir={folder}/browser", "--virtual-time-budget=1500", "--dump-dom"),
                url + path,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        assert Page(seen).is_ours()
        # That of the first page counts what is not well before the pipeline's name.
        assert re.search(
            rf"<title>(\(\d!\) )?{re.escape(escape(title, quote=False))}</title>", seen
        )
