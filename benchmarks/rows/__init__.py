"""Networks from tables of rows."""
