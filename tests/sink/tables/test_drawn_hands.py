"""Drawn operations of other programs on Delta tables, between batches."""

from __future__ import annotations

import random
import shutil
from typing import Final

import pytest
from deltalake import DeltaTable, WriterProperties
from pyspark.sql import SparkSession

from tests.envelopes.source import Source
from tests.sink.conftest import Lake
from tests.sink.drawn_hands import FEW, MANY, MORE, ROWS, Hand, Hands, play

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def _at(lake: Lake, path: str) -> str:
    return f"{lake.address}/{path}"


def _sql(*statements: str) -> Hand:
    """Run statements; {t} is the table, {n} a number."""

    def hand(lake: Lake, path: str, chance: random.Random) -> None:
        named = {"t": f"delta.`{_at(lake, path)}`", "n": chance.randrange(ROWS)}
        for statement in statements:
            lake.spark.sql(statement.format(**named))

    return hand


def _restored(lake: Lake, path: str, chance: random.Random) -> None:
    at = _at(lake, path)
    version = chance.randint(1, DeltaTable(at).version())
    lake.spark.sql(f"RESTORE TABLE delta.`{at}` TO VERSION AS OF {version}")


def _removed(lake: Lake, path: str, _: random.Random) -> None:
    shutil.rmtree(_at(lake, path))


def _deleted_elsewhere(lake: Lake, path: str, chance: random.Random) -> None:
    DeltaTable(_at(lake, path)).delete(f"id >= {chance.randrange(ROWS)}")


def _compacted_elsewhere(lake: Lake, path: str, _: random.Random) -> None:
    properties = WriterProperties(compression="SNAPPY")
    DeltaTable(_at(lake, path)).optimize.compact(writer_properties=properties)


MAPPED: Final = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
CHANGING: Final[dict[str, Hand]] = {
    "delete": _sql("DELETE FROM {t} WHERE id = {n}"),
    "delete all": _sql("DELETE FROM {t}"),
    "update": _sql("UPDATE {t} SET v = -7 WHERE id >= {n}"),
    "insert": _sql("INSERT INTO {t} SELECT * FROM {t} WHERE id = {n}"),
    "overwrite": _sql("INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id <> {n}"),
    "merge": _sql(
        "MERGE INTO {t} t USING (SELECT {n} AS id) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = -8"
    ),
    "restore": _restored,
    "remove": _removed,
    "delete by another engine": _deleted_elsewhere,
    "drop a column": _sql(MAPPED, "ALTER TABLE {t} DROP COLUMN v"),
    "drop and add a column": _sql(
        MAPPED, "ALTER TABLE {t} DROP COLUMN v", "ALTER TABLE {t} ADD COLUMN v INT"
    ),
    "rename a column": _sql(MAPPED, "ALTER TABLE {t} RENAME COLUMN v TO w"),
    "exchange a column": _sql(
        MAPPED,
        "ALTER TABLE {t} RENAME COLUMN v TO aside_{n}",
        "ALTER TABLE {t} ADD COLUMN v INT",
    ),
}
HARMLESS: Final[dict[str, Hand]] = {
    "optimize": _sql("OPTIMIZE {t}"),
    "z-order": _sql("OPTIMIZE {t} ZORDER BY (v)"),
    "purge": _sql("REORG TABLE {t} APPLY (PURGE)"),
    "properties": _sql("ALTER TABLE {t} SET TBLPROPERTIES ('team' = 'of {n}')"),
    "comment": _sql("COMMENT ON TABLE {t} IS 'of {n}'"),
    "comment on a column": _sql("ALTER TABLE {t} ALTER COLUMN v COMMENT 'of {n}'"),
    "move a column": _sql("ALTER TABLE {t} ALTER COLUMN v FIRST"),
    "compact by another engine": _compacted_elsewhere,
}
DELTA: Final = Hands(CHANGING, HARMLESS, frozenset({*HARMLESS, "delete all", "remove"}))


@pytest.mark.slow("twenty operations of others between batches")
def test_no_cut_has_what_somebody_else_did(source: Source, lake: Lake, spark: SparkSession):
    play(source, lake, spark, DELTA, 1, FEW)


@pytest.mark.nightly("twenty draws in make test-sink")
@pytest.mark.slow("two hundred operations of others")
@pytest.mark.parametrize("seed", MORE)
def test_no_cut_has_what_somebody_else_did_in_more_draws(
    source: Source, lake: Lake, spark: SparkSession, seed: int
):
    play(source, lake, spark, DELTA, seed, MANY)
