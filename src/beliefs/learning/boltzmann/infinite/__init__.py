"""Machines whose hidden layer grows: a measure over weight vectors, and Frank-Wolfe steps on it."""
