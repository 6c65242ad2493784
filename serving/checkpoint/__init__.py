"""What a checkpoint holds: every tensor of a model by kind, shape and storage, read from its config or its files."""
