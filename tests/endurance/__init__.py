"""The long run: real parts, killed at random for as long as one likes, and a judge at the end.

    python -m tests.endurance --minutes 60 --seed 7 --checkpoint-records 2000000

Three Kafka brokers, a schema registry, an embedded SQL Server in a process of its own, the
publisher as `tailrace publish` and the sink as `tailrace sink`. While two writers change four
tables, one after another of these parts dies by SIGKILL and is started again; capture instances are
rotated without waiting for the publisher, change tables are cleaned up, and partitions of one table
are switched out and in. The daemons are started again only when they were killed: if one ends by
itself, the run has failed.

At the end every change row that was ever captured must have been published exactly once and in
order, but for what the progress records name as not being part of the cut: a table that lost its
place and took a new snapshot (snapshot.on_gap is `snapshot` here). The tables as a subscriber has
them, and those of the lake, must be those of the source; `tailrace audit` must find nothing.
"""
