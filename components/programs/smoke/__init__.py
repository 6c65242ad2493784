"""Proof that a server answers as callers expect: a few real requests, from anywhere, with the standard library alone."""
