"""One machine without a stack: a unit, a compose file, manifests or a command, all from the plan that a stack would use."""
