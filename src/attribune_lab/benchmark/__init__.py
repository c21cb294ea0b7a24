"""Experiments: cells of settings, data sets and seeds, trained side by side, and the tables of their results."""
