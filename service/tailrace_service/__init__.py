"""What both daemons share and what is not the contract.

The HTTP endpoint with its status, traces, the registry client, and option types that both have.
Imports the contract only.
"""
