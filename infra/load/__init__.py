"""Load on a server that runs: `vllm bench serve` level by level, what it measured, and what that means."""
