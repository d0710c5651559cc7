"""What regions that sum products share, convolutions and additions: forms, tilings, epilogues and tiles."""
