"""Requests of operators: signals, pauses, orders for single tables."""
