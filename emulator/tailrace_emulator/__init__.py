"""An embedded SQL Server with change data capture, speaking TDS 7.4 to the genuine drivers.

It imports nothing else of Tailrace: the publisher meets it only over the wire.
"""
