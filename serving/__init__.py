"""What is served: model facts, memory, engine arguments, manifests. Pure: no cloud, no clock, no network."""
