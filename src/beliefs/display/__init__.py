"""How objects show themselves: one description, read as text on a terminal and as HTML in a notebook."""
