"""Readers of the files of data sets, named by the cards."""
