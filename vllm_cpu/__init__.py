"""A real vLLM on CPU for the tests: a virtual environment of its own, built once and kept outside the working tree."""
