"""The report of a run as one HTML file: charts, tasks and transcripts, and no request to anyone.

`facts` and `tasks` take numbers from the frame, `charts` draws them, `figures` and `overview` say
what they mean. `rows` chooses rollouts to show and reads them again, `transcript` cuts them
to length, `page` and `write` make the file. `visible` and `markup` see to it that text stays
text. `report.js` sorts, filters and opens transcripts; without it, charts and numbers still show.
"""
