"""Log what changed, each change exactly once, in a SQLite database.

The log and the bookmark are written in one transaction of SQLite. So a crash at any time neither
loses a change nor writes one twice. Do the same in any database that has transactions.

pip install 'tailrace[client]'
python audit_log.py localhost:9092 http://localhost:8081/apis/ccompat/v7 shop audit.db
"""

import json
import sqlite3
import sys

from tailrace.subscribe import Change, Feed, Start, Transaction, subscribe

TABLES = """
CREATE TABLE IF NOT EXISTS bookmark (id INTEGER PRIMARY KEY CHECK (id = 1), text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS log (
    number INTEGER PRIMARY KEY, event TEXT UNIQUE NOT NULL, lsn TEXT, committed TEXT, op TEXT,
    table_name TEXT, old TEXT, new TEXT
);
"""


def row(change: Change) -> tuple[str | None, ...]:
    """One line of the log."""
    images = (json.dumps(image, default=str) for image in (change.before, change.after))
    when = change.commit_time.isoformat()
    table = change.table.in_database
    return (change.id, str(change.commit_lsn), when, change.op, table, *images)


def main(brokers: str, registry: str, prefix: str, path: str, *tables: str) -> None:
    """Log all changes of some or of all tables, from the oldest that the topics hold."""
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(TABLES)
    found = db.execute("SELECT text FROM bookmark").fetchone()
    after = None if found is None else found[0]
    feed = Feed(brokers, registry, prefix)
    with subscribe(feed, tables, Start.beginning(), after=after) as changes:
        for transaction in changes.transactions():
            if isinstance(transaction, Transaction):
                db.execute("BEGIN IMMEDIATE")
                db.executemany(
                    "INSERT INTO log (event, lsn, committed, op, table_name, old, new)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    map(row, transaction.changes),
                )
                db.execute("INSERT OR REPLACE INTO bookmark VALUES (1, ?)", [transaction.bookmark])
                db.execute("COMMIT")


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
