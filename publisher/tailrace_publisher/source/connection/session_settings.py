"""What each connection of the publisher sets when it is opened.

A scan of the capture job writes the change rows of up to ``maxtrans`` transactions in one
transaction of its own. Under READ COMMITTED with locks, the default, a statement that comes to its
rows in ``cdc.lsn_time_mapping`` or in a change table waits until the scan commits: minutes, where
one source transaction was large.

- SNAPSHOT, where the database allows it, waits for no lock. Each statement is a transaction of its
  own (autocommit), so it sees what was committed when it began, and never less than the statement
  before it. With READ_COMMITTED_SNAPSHOT the default does the same.
- Where the database has neither, LOCK_TIMEOUT ends the wait (error 1222), and the statement is
  tried again: a publisher that waits answers no signal, sends no heartbeat, and does not stop.
- READ UNCOMMITTED is wrong, bounded by a committed LSN, too: its scans may miss rows or give them
  twice while others insert, which no later check finds. READPAST passes over what is locked.

https://learn.microsoft.com/sql/t-sql/statements/set-transaction-isolation-level-transact-sql
https://learn.microsoft.com/sql/t-sql/statements/set-lock-timeout-transact-sql
"""

from __future__ import annotations

from typing import Final

LOCK_TIMEOUT_MS: Final = 5_000

SESSION_SETTINGS: Final = (
    f"SET LOCK_TIMEOUT {LOCK_TIMEOUT_MS};"
    " IF EXISTS (SELECT * FROM sys.databases WHERE database_id = DB_ID()"
    " AND snapshot_isolation_state = 1) SET TRANSACTION ISOLATION LEVEL SNAPSHOT"
)
