"""beliefs: learning and inference in discrete graphical models."""
