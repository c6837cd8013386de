"""Names of the lake's tables in a catalog, written alongside the stream of changes.

A name follows its lake table. A table whose source is held or stopped keeps its name, as it comes
back. A name is removed when the configuration has no such lake table any more, when its folder is
gone, and when another name replaces it.

A catalog that does not answer must not delay a cut. A metastore in the sink's own session would:
every statement of Spark queries it, also of tables by path. So a process of its own names tables
(``names_process``), and a thread waits for it. What has a name is in the Delta table
``<lake>/_tailrace/names``, which ``tailrace status`` reads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import structlog
from deltalake import DeltaTable

from tailrace_sink.delta.registration import Answer
from tailrace_sink.errors import NamingFailed
from tailrace_sink.log.names_table import Named, NamesTable
from tailrace_sink.options.catalog_options import CatalogKind
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.tables.catalog_names import catalog_names

Run = Callable[[Mapping[str, Any]], Iterable[Answer]]
"""Carries out an order for :func:`carry_out`."""

_RUN_S: Final = 600.0
_LOOK_S: Final = 0.2
_PAUSE_S: Final = 10.0
_PAUSE_MAX_S: Final = 600.0
_SETTINGS: Final = {
    "spark.app.name": "tailrace-names",
    "spark.master": "local[1]",
    "spark.driver.memory": "512m",
}
_GATEWAY: Final = "PYSPARK_GATEWAY"
_ENDED: Final = "the process ended first"

_log = structlog.get_logger("tailrace.sink")


class TableNames:
    """Names the tables of one lake; does nothing without a catalog.

    Args:
        jars: of the sink's session, comma-separated.
        run: carries out an order; raises NamingFailed.
    """

    def __init__(self, config: SinkConfig, jars: str, run: Run | None = None) -> None:
        self._config = config
        self._jars = jars
        self._run = run or run_order
        self._table = NamesTable(config)
        self._wanted: frozenset[str] | None = None
        self._changed = threading.Condition()
        self._is_closed = False
        self._is_tried = True
        self._thread: threading.Thread | None = None

    def want(self, paths: Iterable[str]) -> None:
        """Name these tables, soon; returns at once.

        Args:
            paths: below the lake, of tables that exist.
        """
        wanted = frozenset(paths)
        if self._config.catalog.kind is CatalogKind.NONE or wanted == self._wanted:
            return
        with self._changed:
            self._wanted = wanted
            self._is_tried = False
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="names", daemon=True)
            self._thread.start()

    def settle(self, should_stop: Callable[[], bool]) -> None:
        """Wait until every table was tried once."""
        with self._changed:
            while not self._is_tried and not should_stop():
                self._changed.wait(_LOOK_S)

    def close(self) -> None:
        """Try no more tables. What is tried now is not waited for: a later start tries it again."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _serve(self) -> None:
        pause = _PAUSE_S
        while not self._is_closed:
            wanted = self._wanted
            is_done = self._name(wanted or frozenset())
            with self._changed:
                self._is_tried = wanted == self._wanted
                self._changed.notify_all()
                if self._is_tried and not self._is_closed:
                    self._changed.wait(None if is_done else pause)
            pause = _PAUSE_S if is_done else min(2 * pause, _PAUSE_MAX_S)

    def _name(self, paths: frozenset[str]) -> bool:
        """Give and remove names; whether the catalog has those that it should have now."""
        try:
            known = self._table.read()
            paths = frozenset(filter(self._config.has_lake_table, paths))
            stays = {path for path, _ in known if path not in paths and self._stays(path)}
            names = catalog_names(paths | stays, self._config.catalog.schema_name)
            wanted = {(path, str(name)) for path, name in names.items()}
            missing, gone = wanted - known, known - wanted
            if not missing and not gone:
                return True
            answers = {(path, name): p for path, name, p in self._run(self._order(gone, missing))}
            problems = {named: answers.get(named, _ENDED) for named in (*gone, *missing)}
            written = dict.fromkeys(wanted & known) | {named: problems[named] for named in missing}
            # A name that could not be removed is still there.
            self._table.write(written | {named: None for named in gone if problems[named]})
        except Exception as error:  # noqa: BLE001 - logged and tried again; the stream continues
            _log.warning("tables_not_named", tables=len(paths), reason=str(error))
            return False
        for (path, name), problem in problems.items():
            is_gone = (path, name) in gone
            if problem is None:
                _log.info("name_removed" if is_gone else "table_named", table=path, name=name)
            elif is_gone:
                _log.warning("name_not_removed", table=path, name=name, reason=problem)
            else:
                _log.warning("table_not_named", table=path, name=name, reason=problem)
        return not any(problems.values())

    def _stays(self, path: str) -> bool:
        """Whether a table that is not in the cut keeps its name."""
        config = self._config
        if not config.has_lake_table(path):
            return False
        options = config.storage_options() or None
        return DeltaTable.is_deltatable(f"{config.lake}/{path}", options)

    def _order(self, gone: Iterable[Named], missing: Iterable[Named]) -> dict[str, Any]:
        config = self._config
        settings = config.session_settings() | config.catalog.spark_settings() | _SETTINGS
        if self._jars:
            settings["spark.jars"] = self._jars
        return {
            "settings": settings,
            "lake": config.lake,
            "catalog": config.catalog.name,
            "drop": sorted(gone),
            "names": sorted(missing),
        }


def run_order(order: Mapping[str, Any]) -> list[Answer]:
    """Carry out an order in a process of its own.

    Raises:
        NamingFailed: the process failed or took too long.
    """
    environ = {name: text for name, text in os.environ.items() if not name.startswith(_GATEWAY)}
    command = [sys.executable, "-m", "tailrace_sink.daemon.names_process"]
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            command,
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=_RUN_S,
            env=environ,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NamingFailed(len(order["names"]) + len(order["drop"]), str(error)) from error
    answers = [Answer(*json.loads(line)) for line in done.stdout.splitlines()]
    if done.returncode and not answers:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise NamingFailed(len(order["names"]) + len(order["drop"]), last)
    return answers
