"""Metrics, their bootstrap intervals, and tables of both."""
