"""Numbers and names out of files."""
