"""A page in the browser to try a model: texts and values, side by side."""

from attribune.apps.playground.session import Answer, PanelAnswer, Session
from attribune.apps.playground.values import AttributeValues, ValueMap

__all__ = ["Answer", "AttributeValues", "PanelAnswer", "Session", "ValueMap"]
