"""Operating-system processes: forking, death with the parent, exit statuses, scratch directories, calls of Linux."""
