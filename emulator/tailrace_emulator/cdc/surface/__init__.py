"""The faces of change data capture in T-SQL: procedures, functions and views."""
