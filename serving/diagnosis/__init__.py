"""What went wrong: causes kept as data, found in logs, manifests, command lines, metrics and answers. Pure."""
