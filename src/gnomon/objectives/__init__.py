"""What is learnt: batches, refusals, and loss terms as sums with weights."""
