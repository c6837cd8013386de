"""The contract: what a change is, for the publisher and for every reader of the topics.

Imports nothing else of Tailrace and does no I/O. ``position`` orders changes, ``topics`` has names,
``events`` builds the Avro schemas of the data, ``records`` has what makes delivery provable and
resumable; ``avsc`` has the fixed schemas as files.
"""
