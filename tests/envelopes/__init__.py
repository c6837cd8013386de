"""A publisher of the tests' own: writes topics by the contract, and knows what the lake must hold.

It shares the contract (schemas/) with the real publisher and nothing else, so that the sink is
tested against the contract alone.
"""
