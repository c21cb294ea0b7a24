"""Published data sets: cards, readers, preparation, statistics."""
