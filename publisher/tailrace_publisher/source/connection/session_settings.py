"""The settings of each connection of the publisher when it is opened.

A scan of the capture job writes the change rows of up to ``maxtrans`` transactions in one
transaction of its own. Under READ COMMITTED with locks, the default, a statement that reads these
rows waits until the scan commits. That takes minutes if one source transaction was large.

- SNAPSHOT waits for no lock, if the database allows it. Each statement is a transaction of its own
  (autocommit). So it sees what was committed when it started, and never less than the statement
  before it. With READ_COMMITTED_SNAPSHOT the default does the same.
- If the database has neither, LOCK_TIMEOUT ends the wait (error 1222), and the statement is
  retried. A publisher that waits answers no signal, sends no heartbeat, and does not stop.
- READ UNCOMMITTED is wrong, even when bounded by a committed LSN. Its scans may miss rows or return
  them twice while others insert, which no later check finds. READPAST skips locked rows.

See: sys.databases (Transact-SQL), snapshot_isolation_state; DB_ID (Transact-SQL): in Azure SQL
Database it may differ from sys.databases.database_id, so the name finds the row.

https://learn.microsoft.com/sql/t-sql/statements/set-transaction-isolation-level-transact-sql
https://learn.microsoft.com/sql/t-sql/statements/set-lock-timeout-transact-sql
"""

from __future__ import annotations

from typing import Final

LOCK_TIMEOUT_MS: Final = 5_000

# See: SET LOCK_TIMEOUT; sys.databases, snapshot_isolation_state
SESSION_SETTINGS: Final = (
    f"SET LOCK_TIMEOUT {LOCK_TIMEOUT_MS};"
    " IF EXISTS (SELECT * FROM sys.databases WHERE name = DB_NAME()"
    " AND snapshot_isolation_state = 1) SET TRANSACTION ISOLATION LEVEL SNAPSHOT"
)
