"""Schema objects, rows, transactions: SQLite underneath SQL Server's rules."""
