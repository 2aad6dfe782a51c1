"""The tools for the project boards."""

from palestra.resources_servers.workplace_assistant.desk import Desk, Output, contains, output
from palestra.server import Session, tool

LISTS = ("Backlog", "In Progress", "In Review", "Completed")
BOARDS = ("Back end", "Front end", "Design")


class ProjectTools(Desk):
    """Tools that search, create, change and delete tasks."""

    @tool
    async def project_management_get_task_information_by_id(
        self, session: Session, task_id: str, field: str
    ) -> Output:
        """Returns the task information for a given ID.

        task_id: 8-digit ID of the task
        field: Field to return: 'task_id', 'task_name', 'assigned_to_email', 'list_name', 'due_date', 'board'
        """
        return self.looked_up(session, "tasks", task_id, field)

    @tool
    async def project_management_search_tasks(
        self,
        session: Session,
        task_name: str | None = None,
        assigned_to_email: str | None = None,
        list_name: str | None = None,
        due_date: str | None = None,
        board: str | None = None,
    ) -> Output:
        """Searches for tasks based on the given parameters.

        task_name: Name of the task
        assigned_to_email: Email address of the person assigned to the task
        list_name: Name of the list the task belongs to
        due_date: Due date of the task in YYYY-MM-DD format
        board: Name of the board the task belongs to
        """
        filters = {
            "task_name": task_name,
            "assigned_to_email": assigned_to_email,
            "list_name": list_name,
            "due_date": due_date,
            "board": board,
        }
        tasks = [
            dict(task)
            for task in self.at(session).all("tasks")
            if all(contains(text, task[name]) for name, text in filters.items())
        ]
        return output(tasks or "No tasks found.")

    @tool
    async def project_management_create_task(
        self,
        session: Session,
        task_name: str,
        assigned_to_email: str,
        list_name: str,
        due_date: str,
        board: str,
    ) -> Output:
        """Creates a new task.

        task_name: Name of the task
        assigned_to_email: Email address of the person assigned to the task
        list_name: One of: 'Backlog', 'In Progress', 'In Review', 'Completed'
        due_date: Due date of the task in YYYY-MM-DD format
        board: One of: 'Back end', 'Front end', 'Design'
        """
        if problem := _misplaced({"list_name": list_name, "board": board}):
            return output(problem)
        task = {
            "task_name": task_name,
            "assigned_to_email": assigned_to_email,
            "list_name": list_name,
            "due_date": due_date,
            "board": board,
        }
        return self.added(session, "tasks", task)

    @tool
    async def project_management_delete_task(self, session: Session, task_id: str) -> Output:
        """Deletes a task by ID.

        task_id: 8-digit ID of the task
        """
        return self.deleted(session, "tasks", task_id)

    @tool
    async def project_management_update_task(
        self, session: Session, task_id: str, field: str, new_value: str
    ) -> Output:
        """Updates a task by ID.

        task_id: 8-digit ID of the task
        field: Field to update: 'task_name', 'assigned_to_email', 'list_name', 'due_date', 'board'
        new_value: New value for the field
        """
        if problem := _misplaced({field: new_value}):
            return output(problem)
        return self.updated(session, "tasks", task_id, {field: new_value})


def _misplaced(values: dict[str, str]) -> str:
    """Return the error for an unknown list or board; empty when there is none."""
    for field, allowed in (("list_name", LISTS), ("board", BOARDS)):
        if field in values and values[field] not in allowed:
            return f"{field} must be one of: {', '.join(allowed)}."
    return ""
