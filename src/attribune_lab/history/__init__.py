"""The method ``history``: training rows of the same value are kept with the model, and read in front of a text."""
