"""Boltzmann machines fitted to rows of bits."""
