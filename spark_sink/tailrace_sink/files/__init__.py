"""Parquet files that the sink itself writes for lake tables, and old rows of changed keys.

Both table formats commit such files, each in its own way.
"""
