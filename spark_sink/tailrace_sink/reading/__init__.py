"""Readers of a lake: a cut of all tables, the changes of one table, the history of its rows."""
