"""What pages show, apart from their markup: pictures in coordinates, numbers of reports, texts line by line."""
