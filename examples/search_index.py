"""Keep a full-text index of a table: its rows first, then each change. SQLite's FTS5.

The index and the bookmark are written in one transaction. A new snapshot of the table replaces what
is indexed: rows that it does not mention no longer exist.

pip install 'tailrace[client]'
python search_index.py localhost:9092 http://localhost:8081/apis/ccompat/v7 shop dbo.orders index.db
"""

import json
import sqlite3
import sys
from typing import Any

from tailrace.subscribe import (
    UNAVAILABLE,
    Change,
    Feed,
    SnapshotFinished,
    SnapshotStarted,
    Start,
    Subscription,
    Transaction,
    subscribe,
)

TABLES = """
CREATE TABLE IF NOT EXISTS bookmark (
    id INTEGER PRIMARY KEY CHECK (id = 1), text TEXT, snapshot INTEGER, is_open INTEGER
);
INSERT OR IGNORE INTO bookmark VALUES (1, NULL, 0, 0);
CREATE TABLE IF NOT EXISTS source_row (
    key TEXT PRIMARY KEY, document INTEGER, texts TEXT, snapshot INTEGER
);
CREATE VIRTUAL TABLE IF NOT EXISTS documents USING fts5 (text);
"""


def index(db: sqlite3.Connection, change: Change) -> None:
    """Index one change."""
    key = json.dumps(change.key, default=str)
    if change.op == "d":
        forget(db, "key = ?", key)
        return
    known = db.execute("SELECT document, texts FROM source_row WHERE key = ?", [key]).fetchone()
    document, texts = (None, {}) if known is None else (known[0], json.loads(known[1]))
    for name, value in change.after.items():
        if value is not UNAVAILABLE:  # a large value that the update left as it is
            texts[name] = value if isinstance(value, str) else ""
    document = db.execute(
        "INSERT OR REPLACE INTO documents (rowid, text) VALUES (?, ?)",
        [document, " ".join(filter(None, texts.values()))],
    ).lastrowid
    db.execute(
        "INSERT OR REPLACE INTO source_row SELECT ?, ?, ?, snapshot FROM bookmark",
        [key, document, json.dumps(texts)],
    )


def forget(db: sqlite3.Connection, condition: str, *values: Any) -> None:
    """Remove rows."""
    where = f"(SELECT document FROM source_row WHERE {condition})"
    db.execute(f"DELETE FROM documents WHERE rowid IN {where}", values)
    db.execute(f"DELETE FROM source_row WHERE {condition}", values)


def run(changes: Subscription, db: sqlite3.Connection) -> None:
    """Follow the table until the subscription is closed."""
    for found in changes.transactions():
        db.execute("BEGIN IMMEDIATE")
        if isinstance(found, Transaction):
            for change in found.changes:
                index(db, change)
        elif isinstance(found, SnapshotStarted):
            db.execute("UPDATE bookmark SET snapshot = snapshot + 1, is_open = 1")
        elif isinstance(found, SnapshotFinished):
            # Without its beginning the end of a snapshot proves nothing.
            forget(db, "snapshot < (SELECT snapshot FROM bookmark WHERE is_open = 1)")
            db.execute("UPDATE bookmark SET is_open = 0")
        bookmark = found.bookmark if isinstance(found, Transaction) else changes.bookmark
        db.execute("UPDATE bookmark SET text = ?", [bookmark])
        db.execute("COMMIT")


def opened(path: str) -> sqlite3.Connection:
    """The index."""
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(TABLES)
    return db


def subscribed(feed: Feed, table: str, db: sqlite3.Connection) -> Subscription:
    """The table's rows and changes after what is indexed."""
    (after,) = db.execute("SELECT text FROM bookmark").fetchone()
    return subscribe(feed, [table], Start.from_snapshot(), after=after)


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    brokers, registry, prefix, table, path = sys.argv[1:]
    index_db = opened(path)
    with subscribed(Feed(brokers, registry, prefix), table, index_db) as subscription:
        run(subscription, index_db)
