"""A syntax tree to a plan: names, types, queries and changes of rows as SQLite statements."""
