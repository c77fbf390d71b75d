"""Bayesian and Markov networks learned from tables of rows."""
