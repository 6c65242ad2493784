"""Does a checkpoint fit: weights by rank, KV cache, what is measured beside them, and the layouts that work."""
