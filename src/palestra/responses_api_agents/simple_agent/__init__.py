"""The plain tool-calling agent; its loop is in `app.py`."""
