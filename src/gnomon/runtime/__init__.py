"""The deployed model: the same answers as the torch model, without torch."""
