"""What a user calls: a check, a guard around a region, a suite for many models, and what they conclude."""
