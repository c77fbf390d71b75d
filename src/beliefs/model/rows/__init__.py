"""Rows of observations: tables of coded cells, made of arrays, frames and chunks of either."""
