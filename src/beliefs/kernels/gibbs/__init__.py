"""Gibbs sweeps."""
