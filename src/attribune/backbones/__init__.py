"""Pretrained models: where methods act in them, what of them learns, how they are loaded."""
