"""Broker, registry and embedded SQL Server as child processes."""
