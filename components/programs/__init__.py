"""Programs that run in pods and functions, each bundled into one file out of the modules that it needs."""
