"""A page on which people try a model: texts and values, side by side."""

from attribune.playground.session import Answer, Session, ValueMap

__all__ = ["Answer", "Session", "ValueMap"]
