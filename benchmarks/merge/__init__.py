"""What it takes to merge hundreds of thousands of rows: time against the disk, and memory."""
