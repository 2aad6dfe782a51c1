"""The plain tool-calling loop; `app.py` holds it."""
