"""Fitting: weights from data, by way of inference."""
