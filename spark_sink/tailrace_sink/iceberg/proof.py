"""The proof at start that a catalog's commit of several tables is all or nothing.

The REST specification requires it, and not every catalog does it: some commit one table after the
other. Commits of two scratch tables show it. The first must succeed. In each of the next two a
requirement of one table is false, so neither table may move.

A catalog that checks all requirements first, and then commits table after table, passes that. So
commits of both tables then race commits of one of them. Both tables may move, or neither.
"""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog

from tailrace_sink.errors import CatalogUnavailable, CatalogUnsafe, SinkError
from tailrace_sink.iceberg.catalog import Committed, IcebergCatalog, Outcome
from tailrace_sink.iceberg.loaded_table import Change, LoadedTable
from tailrace_sink.iceberg.names import MAIN, TableId
from tailrace_sink.iceberg.new_table import NewTable, create_table
from tailrace_sink.iceberg.stamp import Stamp
from tailrace_sink.options.iceberg_options import Commits

_STAMP: Final = Stamp("proof", 0)
_RACES: Final = 12
"""Iceberg's own server, which commits table after table, tears about every second one."""

_log = structlog.get_logger("tailrace.sink")


def prove_catalog(
    catalog: IcebergCatalog, namespace: tuple[str, ...], commits: Commits = Commits.ALL_TABLES
) -> None:
    """Check that a commit of two tables moves both or neither.

    Args:
        namespace: where the scratch tables are created and dropped.
        commits: of one table each need no proof.

    Raises:
        CatalogUnsafe: the catalog moved one table, or knows no such commits.
        CatalogUnavailable, CatalogUnusable, ApplyFailed: the catalog failed.
    """
    if commits is Commits.EACH_TABLE:
        _log.warning(
            "catalog_not_proven",
            catalog=catalog.name,
            effect="readers of the tables may see some of a cut and not the rest for moments",
        )
        return
    if not catalog.commits_several_tables:
        raise CatalogUnsafe(catalog.name, "only REST catalogs commit several tables at once")
    mark = uuid.uuid4().hex[:12]
    names = [TableId(namespace, f"tailrace_proof_{mark}_{end}") for end in ("a", "b")]
    try:
        for name in names:
            create_table(catalog, name, NewTable("id BIGINT"), _STAMP)
        _prove(catalog, *names)
        _race(catalog, *names)
    finally:
        for name in names:
            _drop(catalog, name)
    _log.info("catalog_proven", catalog=catalog.name)


def _prove(catalog: IcebergCatalog, first: TableId, second: TableId) -> None:
    whole = catalog.commit([_empty(catalog, first), _empty(catalog, second)])
    _require_answer(catalog, whole)
    if whole.outcome is not Outcome.DONE:
        raise CatalogUnsafe(catalog.name, f"it refused a commit of two tables ({whole.reason})")
    # Of these two, one shows a catalog that commits table after table, in whichever order it works.
    for stale in (second, first):
        changes = {name: _empty(catalog, name) for name in (first, second)}
        _require_answer(catalog, catalog.commit_one(_empty(catalog, stale)))
        before = {name: _loaded(catalog, name).head(MAIN) for name in (first, second)}
        done = catalog.commit(list(changes.values()))
        _require_answer(catalog, done)
        moved = [str(n) for n, head in before.items() if _loaded(catalog, n).head(MAIN) != head]
        if moved:
            raise CatalogUnsafe(
                catalog.name,
                f"of a commit of two tables, one of which had changed, it committed"
                f" {' and '.join(moved)}",
            )
        if done.outcome is Outcome.DONE:
            raise CatalogUnsafe(
                catalog.name, "it accepted a commit of two tables, and neither of them moved"
            )


def _race(catalog: IcebergCatalog, first: TableId, second: TableId) -> None:
    """Let commits of both tables race commits of one of them.

    They move main branches among the snapshots that the tables have, which writes no files.
    """
    tables = {name: _loaded(catalog, name) for name in (first, second)}
    known = {n: [s.id for s in table.history(table.head(MAIN))] for n, table in tables.items()}
    with ThreadPoolExecutor(2, "catalog-proof") as pool:
        for turn in range(_RACES):
            goals, rivals = {}, []
            for name, table in tables.items():
                goal, other = (i for i in known[name][:3] if i != table.head(MAIN))
                goals[name] = goal
                rivals.append(table.with_heads({MAIN: other}))
            moves = [tables[name].with_heads({MAIN: goal}) for name, goal in goals.items()]
            whole = pool.submit(catalog.commit, moves)
            rival = pool.submit(catalog.commit_one, rivals[turn % 2])
            done = whole.result()
            for answer in (done, rival.result()):  # what arrives later would look like a tear
                _require_answer(catalog, answer)
            tables = {name: _loaded(catalog, name) for name in goals}
            moved = [n for n, table in tables.items() if table.head(MAIN) == goals[n]]
            if len(moved) == 1 or (done.outcome is Outcome.DONE and not moved):
                raise CatalogUnsafe(
                    catalog.name,
                    "of a commit of two tables, while another client committed to one of them, it"
                    f" committed {moved[0] if moved else 'neither'} and answered"
                    f" {done.reason or 'that all was done'}",
                )


def _drop(catalog: IcebergCatalog, name: TableId) -> None:
    try:
        catalog.drop(name)
    except SinkError as error:  # What failed before is to be reported, and not this.
        _log.warning("proof_table_left", table=str(name), reason=str(error))


def _empty(catalog: IcebergCatalog, name: TableId) -> Change:
    return _loaded(catalog, name).with_empty_snapshot(_STAMP)


def _loaded(catalog: IcebergCatalog, name: TableId) -> LoadedTable:
    found = catalog.load(name)
    if found is None:
        raise CatalogUnsafe(catalog.name, f"it lost table {name} right after creating it")
    return found


def _require_answer(catalog: IcebergCatalog, done: Committed) -> None:
    if done.outcome is Outcome.UNKNOWN:
        raise CatalogUnavailable(catalog.name, "a commit of two tables", done.reason)
