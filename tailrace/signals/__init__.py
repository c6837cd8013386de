"""Requests of an operator: to a running publisher, and to the offsets of a consumer group."""
