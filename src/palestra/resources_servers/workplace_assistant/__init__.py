"""An office of tools (mail, calendar, tasks, customers, analytics): were the right changes made."""
