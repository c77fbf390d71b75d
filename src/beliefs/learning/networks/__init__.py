"""Bayesian networks from tables of rows: counts, priors, scores, trees and EM."""
