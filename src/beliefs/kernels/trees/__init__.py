"""Passes over cluster trees."""
