"""T-SQL: splitting, parsing, type inference, compilation to SQLite, interpretation."""
