"""Progress, drawn while a question is answered."""
