"""From blocks of rows to the same Avro bytes, without a Python object for each value.

The driver fills blocks: the cells of many rows of a column side by side (``column_forms``). Each
column becomes *pieces*: one run of bytes, and the place of every row's part (``byte_runs``,
``kernels``). Arrow joins the pieces of all columns, row by row, into images and keys (``images``),
and those into events (``envelopes``, ``block_writer``). A block costs some hundred calls of numpy
and Arrow, whatever the number of its rows. Only Kafka's client needs Python objects: one key, one
value and one position of each event.

The reference (``encode.envelopes``) judges. These modules decline whatever they do not know or
doubt (``Declined``). The reference then reads and encodes that page, and reports what is wrong.
numpy and Arrow are optional: without them the reference encodes everything.
"""
