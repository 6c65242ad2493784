"""Replays traffic through the brain's own `decide()` and compares what it costs and whom it delays."""
