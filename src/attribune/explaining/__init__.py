"""The explaining room: what the attributes of a trained run contribute, to the metrics and to single rows."""
