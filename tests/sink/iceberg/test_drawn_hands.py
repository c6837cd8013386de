"""Drawn operations of other programs on tables in Iceberg, between batches."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any, Final

import pytest

from tailrace_sink.iceberg.catalog import IcebergCatalog
from tailrace_sink.iceberg.names import BRANCH, MAIN, PLACE_PROPERTY, TableId
from tests.envelopes.source import Source
from tests.sink.conftest import Lake
from tests.sink.drawn_hands import FEW, MANY, MORE, ROWS, Hand, Hands, play
from tests.sink.iceberg.conftest import CatalogServer
from tests.sink.iceberg.test_cuts import once_is_enough

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.parametrize("lake", ["s3"], indirect=True),
]


def _id(lake: Lake, path: str) -> TableId:
    return TableId.at(path, lake.options["iceberg"]["namespace"])


def _sql(*statements: str) -> Hand:
    """Run statements; {t} is the table, {n} a number."""

    def hand(lake: Lake, path: str, chance: random.Random) -> None:
        table = _id(lake, path)
        named = {"t": table.sql("other"), "n": chance.randrange(ROWS), "of": str(table)}
        for statement in statements:
            lake.spark.sql(statement.format(**named))

    return hand


def _call(procedure: str, more: str = "") -> Hand:
    """Call a procedure of Iceberg for the table."""
    return _sql(f"CALL other.system.{procedure}(table => '{{of}}'{more})")


def _java(do: Callable[[Any, random.Random], Any]) -> Hand:
    """Use Iceberg's Java library, as engines beside Spark do."""

    def hand(lake: Lake, path: str, chance: random.Random) -> None:
        table = IcebergCatalog(lake.spark, "other").load(_id(lake, path))
        assert table is not None
        do(table.java, chance)

    return hand


def _earlier(table: Any, chance: random.Random) -> int:
    """A drawn snapshot of the main branch."""
    log = [int(entry.snapshotId()) for entry in list(table.history())]
    return chance.choice(log)


def _rolled_back(table: Any, chance: random.Random) -> None:
    table.manageSnapshots().setCurrentSnapshot(_earlier(table, chance)).commit()


def _main_replaced(table: Any, chance: random.Random) -> None:
    table.manageSnapshots().replaceBranch(MAIN, _earlier(table, chance)).commit()


def _file_removed(table: Any, _: random.Random) -> None:
    for file in _some_file(table):
        table.newDelete().deleteFile(file).commit()


def _file_appended(table: Any, _: random.Random) -> None:
    for file in _some_file(table):
        table.newFastAppend().appendFile(file).commit()


def _some_file(table: Any) -> list[Any]:
    """A data file of the newest snapshot, if it has any."""
    files = table.newScan().planFiles().iterator()
    return [files.next().file()] if files.hasNext() else []


def _tagged(table: Any, chance: random.Random) -> None:
    name = f"month_{chance.randrange(1 << 30)}"
    table.manageSnapshots().createTag(name, _earlier(table, chance)).commit()


def _staging_branch_removed(table: Any, _: random.Random) -> None:
    table.manageSnapshots().removeBranch(BRANCH).commit()


def _audited(lake: Lake, path: str, chance: random.Random) -> None:
    """Rows on a branch of their own, as in write, audit, publish, without the last."""
    name = f"audit_{chance.randrange(1 << 30)}"

    def branch(table: Any, _: random.Random) -> None:
        table.manageSnapshots().createBranch(name).commit()

    _java(branch)(lake, path, chance)
    _sql(f"DELETE FROM {{t}}.branch_{name} WHERE id >= {{n}}")(lake, path, chance)


def _without_identity(table: Any, _: random.Random) -> None:
    table.updateSchema().setIdentifierFields([]).commit()


def _partitioned(table: Any, _: random.Random) -> None:
    table.updateSpec().addField("v").commit()


def _staging_branch_moved(table: Any, _: random.Random) -> None:
    oldest = int(next(iter(table.history())).snapshotId())
    table.manageSnapshots().replaceBranch(BRANCH, oldest).commit()


def _renamed(lake: Lake, path: str, chance: random.Random) -> None:
    table = _id(lake, path)
    new = TableId(table.namespace, f"{table.name}_{chance.randrange(1 << 30)}")
    catalog = IcebergCatalog(lake.spark, "other")
    catalog.java.renameTable(catalog.identifier(table), catalog.identifier(new))


COPY: Final = "SELECT * FROM {t} WHERE id <> {n}"
CHANGING: Final[dict[str, Hand]] = {
    "delete": _sql("DELETE FROM {t} WHERE id = {n}"),
    "delete all": _sql("DELETE FROM {t}"),
    "truncate": _sql("TRUNCATE TABLE {t}"),
    "update": _sql("UPDATE {t} SET v = -7 WHERE id >= {n}"),
    "insert": _sql("INSERT INTO {t} SELECT * FROM {t} WHERE id = {n}"),
    "overwrite": _sql(f"INSERT OVERWRITE {{t}} {COPY}"),
    "merge": _sql(
        "MERGE INTO {t} t USING (SELECT {n} AS id) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = -8"
    ),
    "roll back": _java(_rolled_back),
    "replace main": _java(_main_replaced),
    "remove a file": _java(_file_removed),
    "append a file": _java(_file_appended),
    "drop": _sql("DROP TABLE {t}"),
    "purge": _sql("DROP TABLE {t} PURGE"),
    "rename": _renamed,
    "replace": _sql(f"CREATE OR REPLACE TABLE {{t}} USING iceberg AS {COPY}"),
    "replace by nothing": _sql("CREATE OR REPLACE TABLE {t} (id INT, v INT) USING iceberg"),
    "drop and create": _sql("DROP TABLE {t}", "CREATE TABLE {t} (id INT, v INT) USING iceberg"),
    "drop a column": _sql("ALTER TABLE {t} DROP COLUMN v"),
    "drop and add a column": _sql(
        "ALTER TABLE {t} DROP COLUMN v", "ALTER TABLE {t} ADD COLUMN v INT"
    ),
    "rename a column": _sql("ALTER TABLE {t} RENAME COLUMN v TO w"),
    "exchange a column": _sql(
        "ALTER TABLE {t} RENAME COLUMN v TO aside_{n}", "ALTER TABLE {t} ADD COLUMN v INT"
    ),
    "widen a column": _sql("ALTER TABLE {t} ALTER COLUMN v TYPE BIGINT"),
    "unset a property": _sql(f"ALTER TABLE {{t}} UNSET TBLPROPERTIES ('{PLACE_PROPERTY}')"),
}
HARMLESS: Final[dict[str, Hand]] = {
    "compact": _call("rewrite_data_files", ", options => map('rewrite-all', 'true')"),
    "rewrite deletes": _call("rewrite_position_delete_files"),
    "rewrite manifests": _call("rewrite_manifests"),
    "expire": _call("expire_snapshots", ", older_than => now(), retain_last => 1"),
    "tag": _java(_tagged),
    "audit on a branch": _audited,
    "remove the staging branch": _java(_staging_branch_removed),
    "append nothing": _java(lambda table, _: table.newFastAppend().commit()),
    "properties": _sql("ALTER TABLE {t} SET TBLPROPERTIES ('team' = 'of {n}')"),
    "copy on write": _sql(
        "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode'='copy-on-write')"
    ),
    "comment": _sql("COMMENT ON TABLE {t} IS 'of {n}'"),
    "comment on a column": _sql("ALTER TABLE {t} ALTER COLUMN v COMMENT 'of {n}'"),
    "move a column": _sql("ALTER TABLE {t} ALTER COLUMN v FIRST"),
    "move the staging branch": _java(_staging_branch_moved),
    "partition": _java(_partitioned),
    "identify nothing": _java(_without_identity),
}
ANYWHERE: Final = frozenset(
    {"delete all", "truncate", "drop", "purge", "compact", "rewrite deletes", "rewrite manifests"}
    | {"expire", "tag", "remove the staging branch", "append nothing", "properties", "comment"}
)


ICEBERG: Final = Hands(CHANGING, HARMLESS, ANYWHERE)


@pytest.fixture
def in_iceberg(lake: Lake, server: CatalogServer, monkeypatch: pytest.MonkeyPatch) -> Lake:
    space = f"hands_{uuid.uuid4().hex[:8]}"
    catalog = server.options | {"namespace": space, "data": f"{server.options['data']}/{space}"}
    lake.options |= {"format": "iceberg", "iceberg": catalog}
    once_is_enough(monkeypatch)
    return lake


@pytest.mark.slow("twenty operations of others between batches")
def test_no_cut_has_what_somebody_else_did(source: Source, in_iceberg: Lake):
    play(source, in_iceberg, in_iceberg._sink_spark, ICEBERG, 1, FEW)


@pytest.mark.nightly("twenty draws in make test-sink")
@pytest.mark.slow("two hundred operations of others")
@pytest.mark.parametrize("seed", MORE)
def test_no_cut_has_what_somebody_else_did_in_more_draws(
    source: Source, in_iceberg: Lake, seed: int
):
    play(source, in_iceberg, in_iceberg._sink_spark, ICEBERG, seed, MANY)
