"""From blocks of rows to the same Avro bytes, without a Python object for each value.

Theory of operation. The driver fills blocks: for each column the cells of many rows side by side
(``forms``), no Python object among them. Each column becomes *pieces*, one run of bytes with the
place of every row's part (``pieces``, ``kernels``); Arrow joins the pieces of all columns, row by
row, into images and keys (``images``), and those into events (``envelopes``; ``debezium`` and
``flat`` are their forms). All of that is some hundred calls of numpy and Arrow a block, whatever
the number of its rows. Python objects are made where Kafka's client wants them: one key, one value
and one position of each event.

The bytes are those of the reference (``encode.envelope``), which judges: whatever these modules do
not know or doubt, they decline (``Declined``), and the reference reads and encodes that page
instead, with its own words for what is wrong. numpy and Arrow are optional: without them,
everything goes by the reference.
"""
