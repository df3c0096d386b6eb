"""Quality, speed, memory and the controls that could refute them; pure functions on arrays and callables."""
