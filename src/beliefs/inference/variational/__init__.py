"""Variational methods: the best distribution of a simple family, and the bound that it proves."""
