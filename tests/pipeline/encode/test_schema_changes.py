"""Schema changes beside the data: DDL with the events' columns before and after, and hand-overs."""

from __future__ import annotations

import pytest

from tailrace.subscribe import SchemaChanged, Start
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running, live_until_killed
from tests.pipeline.subscribe.subscribers import events

pytestmark = pytest.mark.kafka


def test_ddl_and_hand_overs_are_told_once_each(pipe: Pipe):
    source = pipe.source
    source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v int)", "CREATE TABLE dbo.x (id int)")
    source.enable("t")
    source.enable("x")
    source.execute(
        "ALTER TABLE dbo.t ADD before_the_first_start int NULL", "INSERT dbo.t VALUES (0, 0, 0)"
    )
    source.scan()
    options = pipe.options(schema_changes=True, tables={"include": [r"dbo\.t"]})
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "it has begun")
        source.execute(
            "ALTER TABLE dbo.t ALTER COLUMN v bigint",
            "ALTER TABLE dbo.x ADD not_published int NULL",
            "INSERT dbo.t (id, v) VALUES (1, 5000000000)",
        )
        publisher.until(pipe.is_caught_up, "the change is out")

    source.execute("ALTER TABLE dbo.t ADD note varchar(9) NULL")
    source.enable("t", capture_instance="N'dbo_t_2'")
    source.execute("INSERT dbo.t VALUES (2, 2, 2, 'two')")
    source.scan()
    live_until_killed(options, "before_commit")
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "the rest is out")

    found = pipe.topics.beside(pipe.topics.names.ddl(source.name))
    history = source.query(
        "SELECT ddl_command, ddl_lsn FROM cdc.ddl_history WHERE source_object_id ="
        " OBJECT_ID(N'dbo.t') AND ddl_command NOT LIKE N'%first_start%' ORDER BY ddl_lsn"
    )
    statements = dict.fromkeys((text, raw.hex(":", -4)) for text, raw in history)
    assert [(r["ddl"], r["lsn"]) for r in found if r["ddl"] is not None] == [*statements]
    altered, added, handed_over = found
    assert [(c["name"], c["type"]) for c in altered["before"]] == [("id", "int"), ("v", "int")]
    assert [(c["name"], c["type"]) for c in altered["after"]] == [("id", "int"), ("v", "bigint")]
    assert altered["ts_ms"] is not None
    assert added["before"] == added["after"] == altered["after"]
    assert handed_over["ddl"] is None
    assert handed_over["capture_instance"] == "dbo_t_2"
    assert handed_over["before"] == added["after"]
    names = [column["name"] for column in handed_over["after"]]
    assert names == ["id", "v", "before_the_first_start", "note"]
    assert [column["key_ordinal"] for column in handed_over["after"]] == [1, 0, 0, 0]
    told = [e for e in events(pipe, Start.beginning()) if isinstance(e, SchemaChanged)]
    assert [e.before for e in told] == [None, *(e.after for e in told[:-1])]
    columns = [[(c.name, str(c.type)) for c in e.after.columns] for e in told]
    assert columns == [
        [(c["name"], c["type"]) for c in one]
        for one in (altered["before"], altered["after"], handed_over["after"])
    ]
    assert {(r["database"], r["schema"], r["table"]) for r in found} == {(source.name, "dbo", "t")}
