"""Where weights come from, which files a server needs, and what proves that a volume holds them whole."""
