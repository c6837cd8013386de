"""Statements that define: tables, modules, types, partitions, permissions."""
