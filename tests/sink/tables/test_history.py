"""History tables over random changes, snapshots and kills: never other than the source's states."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tailrace_schemas.records.progress import PatchedColumns
from tailrace_sink import history, read
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.sink.conftest import Lake
from tests.sink.random_tables import TIMES, change, expected, listed, patch, snapshot

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROUNDS = 4
STEPS = 8
"""Of a sink that has something to do."""
ALL_KINDS: dict[str, Any] = {"kinds": {".*": ["mirror", "changelog", "history"]}}


@pytest.mark.slow("random changes and kills in a lake of their own")
def test_a_history_is_that_of_the_source(source: Source, lake: Lake):
    chance = random.Random(29)
    table = source.table("kept", column(1, "id", "int", key=1), column(2, "v", "int"))
    lake.options |= {"merge_pool": 1}
    # Switched on later: it starts with the first cut that the log has every change after. Here that
    # is the cut of a snapshot, as nothing says what that one did not find.
    for _ in range(2):
        change(source, table, chance)
        source.publish()
        lake.catch_up()
    snapshot(source, table, chance, names_it_first=False)
    lake.catch_up()
    since = source.through
    source.alter(table, column(1, "id", "int", key=1), column(2, "v", "bigint"))
    for _ in range(2):
        change(source, table, chance)
        source.publish()
        lake.catch_up()
    lake.options |= ALL_KINDS
    for number in range(ROUNDS):
        for _ in range(chance.randint(1, 3)):
            change(source, table, chance)
        source.publish()
        patch(source, table, chance)
        if number in (1, 2):
            snapshot(source, table, chance, names_it_first=number == 1)
        lake.break_off(at=chance.randrange(STEPS))
        newest = read(lake.spark, f"{lake.path}/lake").as_of("latest")
        if "shop/dbo/kept.history" in newest.versions:
            found = newest.read("dbo.kept", is_history=True)
            assert listed(found) == expected(source, table, since, newest.closed_lsn), number
        if number in (1, 2):
            # Rows that a snapshot does not find end with the cut: so it is that of the snapshot.
            lake.catch_up()
    lake.catch_up()

    cut = read(lake.spark, f"{lake.path}/lake").as_of("latest")
    kept = cut.read("dbo.kept", is_history=True)
    assert listed(kept) == expected(source, table, since, source.through)
    changes = history(cut.read("dbo.kept", is_changes=True), ["id"])
    assert listed(kept, *TIMES) == listed(changes, *TIMES)
    change(source, table, chance)
    source.publish(patched=[PatchedColumns(table.topic, ["v"])])
    lake.catch_up()
    (said,) = json.loads(lake.commits()[-1]["schema_changes"])
    assert (said["table"], said["change"]) == ("shop/dbo/kept", "whole")
    assert (said["column"], said["becomes"]) == ("v", source.through)
    properties = lake.spark.sql(f"SHOW TBLPROPERTIES delta.`{lake.location('kept.history')}`")
    assert ("tailrace.wholeFrom", since) in {tuple(row) for row in properties.collect()}
    assert cut.tables == [table.name]

    table.rows.clear()  # nothing is left, and no event says so
    snapshot(source, table, chance, names_it_first=True)
    lake.catch_up()
    kept = read(lake.spark, f"{lake.path}/lake").as_of("latest").read("dbo.kept", is_history=True)
    assert listed(kept) == expected(source, table, since, source.through)
    assert kept.where("_cdc_is_current").isEmpty()
