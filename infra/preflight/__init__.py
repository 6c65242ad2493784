"""What is asked of the cloud before anything is spent: one finding for each question, all at once, nothing changed."""
