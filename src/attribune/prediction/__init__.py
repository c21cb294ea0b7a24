"""Batch prediction of tables and folders of files."""
