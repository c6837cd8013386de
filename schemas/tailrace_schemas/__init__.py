"""The contract: what a change is, for the publisher and for every reader of the topics.

Imports nothing else of Tailrace. ``lsn`` and ``position`` order changes; ``types`` maps SQL Server
types to Avro and Spark; ``envelope`` and ``key`` build the Avro schemas; ``topics`` names things;
``progress`` and ``checkpoint`` are the records that make delivery provable and resumable.
"""
