"""Restricted Boltzmann machines: methods in the form of matrix products over two layers."""
