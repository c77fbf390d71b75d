"""Local message passing."""
