"""The doctor at a live stack: what the cluster and AWS say, gathered and given to the diagnosis."""
