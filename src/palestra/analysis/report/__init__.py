"""Writes the report of a run as one HTML file with charts, tasks and transcripts. The file makes no
network requests.

`facts` and `tasks` compute numbers from the frame, `charts` draws them, `figures` and `overview`
explain them. `rows` chooses the rollouts to show and reads their rows again, `transcript` shortens
them, `page` and `write` create the file. `visible` and `markup` escape all text. `report.js` sorts,
filters and opens transcripts; charts and numbers show without it.
"""
