"""Capacity Blocks for ML: what is on offer, bought at most once, made longer. Never by `up` or `preview`."""
