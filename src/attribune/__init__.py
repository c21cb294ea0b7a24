"""Condition pretrained language models on the metadata of a text."""
