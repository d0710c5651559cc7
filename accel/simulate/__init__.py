"""Running of programs: function and cycles, host steps, and the check for races."""
