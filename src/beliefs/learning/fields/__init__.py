"""Markov random fields from tables of rows: closed form, proportional fitting and likelihood."""
