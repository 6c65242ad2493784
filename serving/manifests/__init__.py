"""Kubernetes objects as plain dictionaries: pure functions of names and plans, no cloud look-ups."""
