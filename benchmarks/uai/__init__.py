"""Published problems: errors, scores, and whether bounds hold."""
