"""Beliefs of regions, and messages between them."""
