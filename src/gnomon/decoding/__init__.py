"""Numpy loops that drive any model able to step: greedy, sampled and beam decoding, and the scores of given text."""
