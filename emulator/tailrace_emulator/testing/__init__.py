"""The embedded SQL Server in other people's tests: a process, a source to ask, fixtures."""
