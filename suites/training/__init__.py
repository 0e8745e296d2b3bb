"""What of a train step is compiled, and in which autocast and grad mode."""
