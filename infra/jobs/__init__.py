"""What is done to a running stack: look, wake, hibernate, connect. Each may be run twice and killed anywhere."""
