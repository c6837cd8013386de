"""The publisher in a model of what real servers and real brokers do.

Theory of operation. Real SQL Servers fail over, lag, are restored, clean up early and turn their
clocks back; real brokers answer late, or never. The embedded server and one local broker do none of
that. So here is a model of both, pure and in memory, and the *real publisher* runs in it, behind
its ports (``tailrace_publisher.ports``): nothing of it is replaced.

- Start reading at ``simulation``: the loop of a run, and where each part of it is.
- A *scenario* (``scenario``) is drawn from one seed (``drawing``): surroundings, the publisher's
  options, a list of steps. Nothing else is random. Each call that the publisher makes to a port is
  a tick of the world (``world``); between two ticks the steps that are due happen (``actions``):
  transactions, scans, cleanup, DDL, failovers, errors, kills. Time is virtual. So a run of some
  hundred virtual seconds takes a few tenths of a real one, and a failing one can be cut down, step
  by step.
- ``sqlserver/``: a database is its log. A replica is a prefix of it that was redone, a restored
  database a prefix that goes on differently; change tables are what the capture process made of the
  log. Statements are recognised by their whole text, and an unknown one ends the simulation.
- ``kafka/``: partitions, transactions with late markers, fencing, commits of unknown outcome; the
  clients raise confluent_kafka's own errors. A schema registry.
- ``judge/``: the judge (``oracle``) knows the log, so it knows what should have been published:
  exactly once, in order, every cut and every claim of freshness true, the ledger equal to the
  topics. While the run goes on, the publisher must end only where an operator is needed, and stop a
  table only for a reason that the model knows (``excuses``); it must catch up when all is mended
  (``ending``).
- ``mutants`` puts old faults back, to see that they are found; ``histories/`` keeps what found
  something.
- ``drawn/``: tests that draw histories from seeds, and repeat those that were kept.
- ``scripted/``: tests that write a history step by step (``script``), or run publishers next to a
  model at rest (``lives``, ``resting``). Decisions of the publisher that need no real driver,
  broker or database are tested there; ``tests/pipeline`` keeps one test of each feature.

Every behaviour of real servers has its source in a docstring: a page of its vendor, or "inferred".
How to run it and how to read a failure: docs/simulation.md.
"""
