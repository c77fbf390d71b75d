"""Sampling by Markov chains."""
