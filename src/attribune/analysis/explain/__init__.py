"""Explanations of a run."""
