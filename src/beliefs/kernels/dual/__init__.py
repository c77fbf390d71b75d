"""Block updates of dual decomposition."""
