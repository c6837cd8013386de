"""The long run: real parts, killed at random for as long as one likes, and a judge at the end.

    python -m tests.endurance --minutes 60 --seed 7

Three Kafka brokers, a schema registry, an embedded SQL Server in a process of its own and the
publisher as `tailrace publish`. While two writers change three tables, one after another of these
parts dies by SIGKILL and is started again; capture instances are rotated without waiting for the
publisher, change tables are cleaned up. The publisher is started again only when it was killed: if
it ends by itself, the run has failed.

At the end every change row that was ever captured must have been published exactly once and in
order, but for what the progress records name as not being part of the cut: a table that lost its
place and took a new snapshot (snapshot.on_gap is `snapshot` here). The tables as a subscriber has
them must be those of the source, and `tailrace audit` must find nothing.
"""
