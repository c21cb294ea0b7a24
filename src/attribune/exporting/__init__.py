"""The export room: a trained run for others to use, whole or with attributes fixed to given values."""
