"""Protocols between the rooms of the sink."""
