"""Prepare datasets: check every row, compute metrics, and write the rows with their agent.

Three separate steps: choose the datasets (`in_scope`), find or download their files (`locate`,
`fetch`), then check and write (`prepare_datasets`).
"""
