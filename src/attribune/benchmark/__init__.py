"""ATTRIB and other data sets: cards, readers of the published files, preparation, statistics."""
