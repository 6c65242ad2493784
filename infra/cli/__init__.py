"""The `dormouse` command: arguments in, words and exit codes out; it decides nothing."""
