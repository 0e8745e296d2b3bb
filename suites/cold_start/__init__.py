"""What the first call costs, and what the next process saves of it."""
