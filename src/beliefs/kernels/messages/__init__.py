"""Messages between factors and variables, and what they are worth."""
