"""Programs as files: the container, raw parts that other tools wrote, and their validation by the family."""
