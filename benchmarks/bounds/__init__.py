"""Certified bounds: passes, sweeps, memory, and bounds against time."""
