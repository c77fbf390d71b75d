"""Boltzmann machines beside their matrix products."""
