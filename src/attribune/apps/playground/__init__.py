"""A page in the browser to try a model: texts and values, side by side."""

from attribune.apps.playground.session import Answer, AttributeValues, PanelAnswer, Session, ValueMap

__all__ = ["Answer", "AttributeValues", "PanelAnswer", "Session", "ValueMap"]
