"""Estimators with fit, predict and score."""
