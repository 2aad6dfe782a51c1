"""Servers in the style of the field are run by pytest processes of their own."""

collect_ignore = ["field"]
