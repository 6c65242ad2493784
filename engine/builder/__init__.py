"""The engine tier's build: recipe, toolchain, cache, construction, progress, command. Standard library only."""
