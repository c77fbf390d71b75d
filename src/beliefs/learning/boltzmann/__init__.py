"""Boltzmann machines from data: rows of bits, their losses as matrix products, and what judges a fit."""
