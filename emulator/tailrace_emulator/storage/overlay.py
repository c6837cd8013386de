"""A table as one session sees it: the committed rows, and its own uncommitted changes over them.

Two TEMP tables per changed table: ``d_`` holds the row ids of committed rows that it deleted or
replaced, ``i_`` the new images (inserted or updated rows) under their row ids. They are created
once per session and emptied at the end of each transaction. ``i_`` has the table's unique indexes,
so two new rows with one key meet there.

The first image is held in memory until somebody needs it in ``i_``. Most transactions insert one
row, which then goes to the committed table at once.
"""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Iterable, Sequence
from typing import Final

import apsw

from tailrace_emulator.storage.index_filter import filter_condition
from tailrace_emulator.storage.model import Index, Table
from tailrace_emulator.storage.sqlite_schema import column_list, create_table_text, where_text
from tailrace_emulator.storage.table_plan import Row, TablePlan
from tailrace_emulator.storage.written_ahead import visible_source
from tailrace_emulator.values.fetching import fetch

UNDO_SCHEMA: Final = """
CREATE TEMP TABLE IF NOT EXISTS undo(
  n INTEGER PRIMARY KEY, overlay TEXT NOT NULL, rid INTEGER NOT NULL, hidden INTEGER NOT NULL,
  image BLOB)
"""


ARRAY_ROWS_MIN: Final = 8
"""From so many rows on, one statement over an array of row ids beats one statement per row."""


class Overlay:
    """One session's uncommitted changes of one table."""

    def __init__(self, connection: apsw.Connection, table: Table, number: int) -> None:
        """Make the TEMP tables, empty.

        Args:
            table: as it is now.
            number: of no other overlay of the session. One cannot have the name of a former one:
                SQLite drops nothing while rows of a statement are being read.
        """
        self._connection = connection
        self.table = table
        self.dirty = False
        """There may be changes."""
        self.may_hide = False
        """There may be hidden rows: inserts alone make none, and spare looking for them."""
        self._held: Row | None = None
        """The only image (rid, values...), while it is not in the TEMP table."""
        name = table.sqlite_name
        self.hidden_name = f"d_{name}_{number}"
        self.images_name = f"i_{name}_{number}"
        hidden, images = f'temp."{self.hidden_name}"', f'temp."{self.images_name}"'
        connection.execute(f'CREATE TEMP TABLE "{self.hidden_name}"(rid INTEGER PRIMARY KEY)')
        connection.execute(create_table_text(table, self.images_name, temporary=True))
        for index in table.kept_indexes:
            if index.unique:
                columns = ", ".join(f"c{column_id}" for column_id in index.column_ids)
                connection.execute(
                    f'CREATE UNIQUE INDEX temp."{self.images_name}_{index.index_id}"'
                    f' ON "{self.images_name}"({columns}){where_text(index)}'
                )
        columns = column_list(table)
        base = f'main."{name}"'
        seen = visible_source(table) if table.is_ms_shipped else base
        marks = ", ".join("?" * (len(table.columns) + 1))
        self.base_source = base
        self.source = (
            f"(SELECT rid, {columns} FROM {seen} WHERE rid NOT IN (SELECT rid FROM {hidden})"
            f" UNION ALL SELECT rid, {columns} FROM {images})"
        )
        self._hide = f"INSERT OR IGNORE INTO {hidden}(rid) VALUES (?)"
        self._unhide = f"DELETE FROM {hidden} WHERE rid = ?"
        self._hides = f"SELECT 1 FROM {hidden} WHERE rid = ?"
        self._remove = f"DELETE FROM {images} WHERE rid = ?"
        self._put = f"INSERT INTO {images}(rid, {columns}) VALUES ({marks})"
        self._image = f"SELECT {columns} FROM {images} WHERE rid = ?"
        self._rows = (
            f"SELECT rid, {columns} FROM {base} WHERE rid IN carray(?)"
            f" AND rid NOT IN (SELECT rid FROM {hidden})",
            f"SELECT rid, {columns} FROM {images} WHERE rid IN carray(?)",
        )
        self._take_away = (
            f"DELETE FROM {images} WHERE rid IN carray(?)",
            f"INSERT OR IGNORE INTO {hidden}(rid) SELECT value FROM carray(?)",
        )
        self._committed = f"SELECT {columns} FROM {base} WHERE rid = ?"
        self._clear = (f"DELETE FROM {hidden}", f"DELETE FROM {images}")
        self._apply = (
            f"DELETE FROM {base} WHERE rid IN (SELECT rid FROM {hidden})",
            f"INSERT INTO {base}(rid, {columns}) SELECT rid, {columns} FROM {images}",
        )
        self._apply_one = f"INSERT INTO {base}(rid, {columns}) VALUES ({marks})"
        self._hide_all = f"INSERT OR IGNORE INTO {hidden}(rid) SELECT rid FROM {base}"
        self._rids = f"SELECT rid FROM {self.source}"
        self.plan = TablePlan(table)

    def source_where(self, condition: str, others: str) -> str:
        """As :attr:`source`, with a condition on the committed rows, and further rows after all."""
        columns = column_list(self.table)
        return (
            f"(SELECT rid, {columns} FROM {self.base_source} WHERE rid NOT IN"
            f' (SELECT rid FROM temp."{self.hidden_name}") AND {condition}'
            f' UNION ALL SELECT rid, {columns} FROM temp."{self.images_name}"{others})'
        )

    def settle(self) -> None:
        """Let the TEMP tables have all there is: before anything reads them, or adds to them."""
        held = self._held
        if held is not None:
            self._held = None
            self._connection.execute(self._put, held)

    # -- one row --------------------------------------------------------------------------------

    def row(self, rid: int) -> Row | None:
        """The row as this session sees it, or None."""
        if self.dirty:
            image = self.image(rid)
            if image is not None:
                return image
            if self.hides(rid):
                return None
        return self.committed_row(self._connection, rid)

    def rows(self, rids: Sequence[int]) -> list[Row | None]:
        """The rows as this session sees them, in that order."""
        if len(rids) < ARRAY_ROWS_MIN:
            return [self.row(rid) for rid in rids]
        base, images = self._rows
        self.settle()
        ids = apsw.carray(array("q", rids))
        found = {row[0]: row[1:] for row in fetch(self._connection, base, (ids,))}
        if self.dirty:
            for row in fetch(self._connection, images, (ids,)):
                found[row[0]] = row[1:]
        return [found.get(rid) for rid in rids]

    def committed_row(self, connection: apsw.Connection, rid: int) -> Row | None:
        """The row as committed, in that connection's snapshot, or None."""
        return next(iter(fetch(connection, self._committed, (rid,))), None)

    def image(self, rid: int) -> Row | None:
        """The uncommitted image under that row id, or None."""
        self.settle()
        return next(iter(fetch(self._connection, self._image, (rid,))), None)

    def images(self) -> dict[int, Row]:
        """Every uncommitted image, by row id."""
        self.settle()
        text = f'SELECT rid, {column_list(self.table)} FROM temp."{self.images_name}"'
        return {row[0]: row[1:] for row in fetch(self._connection, text)}

    def hides(self, rid: int) -> bool:
        """Whether the committed row of that id is deleted or replaced here."""
        return self.may_hide and bool(fetch(self._connection, self._hides, (rid,)))

    # -- changes --------------------------------------------------------------------------------

    def take_away(self, rids: Sequence[int]) -> None:
        """Make rows disappear from this session's view."""
        if not rids:
            return
        self.settle()
        if len(rids) < ARRAY_ROWS_MIN:
            pairs = [(rid,) for rid in rids]
            if self.dirty:
                self._connection.executemany(self._remove, pairs)
            self._connection.executemany(self._hide, pairs)
        else:
            ids = apsw.carray(array("q", rids))
            remove, hide = self._take_away
            if self.dirty:
                self._connection.execute(remove, (ids,))
            self._connection.execute(hide, (ids,))
        self.dirty = self.may_hide = True

    def put(self, rows: Sequence[Row]) -> None:
        """Add images (rid, values...).

        Raises:
            apsw.ConstraintError: two images have one unique key.
        """
        if not rows:
            return
        if len(rows) == 1 and not self.dirty:
            self._held = rows[0]
            self.dirty = True
            return
        self.settle()
        self.dirty = True
        self._connection.executemany(self._put, rows)

    def meets_committed_key(self, index: Index, rids: Sequence[int]) -> bool:
        """Whether one of these images has the unique key of a committed row that stays."""
        self.settle()
        same = " AND ".join(
            f"old.c{column_id} IS new.c{column_id}" for column_id in index.column_ids
        )
        for side in ("old.", "new.") if index.filter else ():
            same += f" AND {filter_condition(index.filter, side)}"
        query = (
            f'SELECT 1 FROM temp."{self.images_name}" AS new CROSS JOIN {self.base_source} AS old'
            f" ON {same} WHERE new.rid IN carray(?)"
            f' AND old.rid NOT IN (SELECT rid FROM temp."{self.hidden_name}") LIMIT 1'
        )
        return bool(fetch(self._connection, query, (apsw.carray(array("q", rids)),)))

    def hide_all(self) -> None:
        """TRUNCATE: no row is left."""
        self._held = None
        self._connection.execute(self._clear[1])
        self._connection.execute(self._hide_all)
        self.dirty = self.may_hide = True

    def visible_rids(self) -> list[int]:
        """Every row that this session sees."""
        self.settle()
        return [rid for (rid,) in self._connection.execute(self._rids)]

    # -- undo for savepoints ----------------------------------------------------------------------

    def record_undo(self, rids: Iterable[int]) -> None:
        """Remember how these row ids stand now, in the session's undo list."""
        rows = []
        for rid in rids:
            image = self.image(rid)
            blob = None if image is None else marshal.dumps(image)
            rows.append((self.table.sqlite_name, rid, self.hides(rid), blob))
        self._connection.executemany(
            "INSERT INTO temp.undo(overlay, rid, hidden, image) VALUES (?, ?, ?, ?)", rows
        )

    def remove(self, rid: int) -> None:
        """Undo, first step: no image is left under that row id."""
        self._connection.execute(self._remove, (rid,))

    def put_back(self, rid: int, hidden: bool, image: bytes | None) -> None:
        """Undo, second step: the row id stands as it was remembered."""
        self._connection.execute(self._hide if hidden else self._unhide, (rid,))
        if image is not None:
            row = marshal.loads(image)  # noqa: S302 - our own TEMP table
            self._connection.execute(self._put, (rid, *row))

    # -- the end --------------------------------------------------------------------------------

    def apply(self) -> None:
        """Carry the changes over to the committed table, inside a write transaction."""
        held = self._held
        if held is not None:
            self._held = None
            self._connection.execute(self._apply_one, held)
            self.dirty = False
            return
        delete, insert = self._apply
        if self.may_hide:
            self._connection.execute(delete)
        self._connection.execute(insert)
        self.clear()

    def suspect(self, dirty: bool) -> None:
        """SQLite undid something: there may be changes, of any kind, or surely none."""
        self._held = None
        self.dirty = self.may_hide = dirty

    def clear(self) -> None:
        """Forget the changes."""
        clear_hidden, clear_images = self._clear
        if self.may_hide:
            self._connection.execute(clear_hidden)
        if self.dirty and self._held is None:
            self._connection.execute(clear_images)
        self._held = None
        self.dirty = self.may_hide = False
