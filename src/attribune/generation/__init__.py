"""Models that write: a decoder with its language-model head, whose text depends on the attributes."""
