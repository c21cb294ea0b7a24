"""A page in the browser to try a model: texts and values, side by side."""

from attribune.apps.playground.session import Answer, PanelAnswer, Session, ValueMap

__all__ = ["Answer", "PanelAnswer", "Session", "ValueMap"]
