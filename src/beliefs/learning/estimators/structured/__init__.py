"""Structured prediction: conditional random fields and support vector machines on chains, grids and graphs."""
