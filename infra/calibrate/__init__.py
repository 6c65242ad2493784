"""The plan against the hardware: starts the real engine with dummy weights and compares what it took with the plan."""
