"""Elimination orders, colours and schedules: work on graphs alone."""
