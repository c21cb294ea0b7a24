"""From a table to model inputs: reading, splitting, fitting long texts, encoding, collating and batching."""
