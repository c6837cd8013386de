"""Avro events to Arrow columns and Parquet files, column by column over many records at once.

Spark ships these modules to executors by value. So they import numpy, pyarrow, confluent-kafka and
each other only, and executors need no installed Tailrace. Pure, but for reading and writing tasks.
"""
