"""Multiple choice questions, with a search tool and a browser."""
