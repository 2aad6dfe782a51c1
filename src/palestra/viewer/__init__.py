"""The local web app for looking at runs: `palestra view`."""
