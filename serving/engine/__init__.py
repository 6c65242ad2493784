"""The engine's command line: which flags vLLM knows, what Dormouse passes, what a user may add."""
