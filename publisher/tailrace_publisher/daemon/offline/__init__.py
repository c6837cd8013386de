"""Commands that run while no publisher does: reshard, accept a restored database."""
