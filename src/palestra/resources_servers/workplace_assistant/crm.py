"""The tools for customer relationship management."""

from palestra.resources_servers.workplace_assistant.desk import (
    PAGE_SIZE,
    Desk,
    Output,
    contains,
    output,
    page_of,
    within,
)
from palestra.server import Session, tool

STATUSES = ("Qualified", "Won", "Lost", "Lead", "Proposal")
PRODUCTS = ("Software", "Hardware", "Services", "Consulting", "Training")


class CustomerTools(Desk):
    """Tools that search, add, change and delete customers."""

    @tool
    async def customer_relationship_manager_search_customers(
        self,
        session: Session,
        customer_name: str | None = None,
        customer_email: str | None = None,
        product_interest: str | None = None,
        status: str | None = None,
        assigned_to_email: str | None = None,
        last_contact_date_min: str | None = None,
        last_contact_date_max: str | None = None,
        follow_up_by_min: str | None = None,
        follow_up_by_max: str | None = None,
        page: int = 1,
        page_size: int = PAGE_SIZE,
    ) -> Output:
        """Searches for customers based on the given parameters with pagination support.

        customer_name: Name of the customer
        customer_email: Email address of the customer
        product_interest: Product interest of the customer
        status: Current status of the customer
        assigned_to_email: Email address of the person assigned to the customer
        last_contact_date_min: Minimum last contact date. Format: YYYY-MM-DD
        last_contact_date_max: Maximum last contact date. Format: YYYY-MM-DD
        follow_up_by_min: Minimum follow up date. Format: YYYY-MM-DD
        follow_up_by_max: Maximum follow up date. Format: YYYY-MM-DD
        page: Page number of results to return
        page_size: Number of customers per page
        """
        filters = {
            "customer_name": customer_name,
            "customer_email": customer_email,
            "product_interest": product_interest,
            "status": status,
            "assigned_to_email": assigned_to_email,
        }
        dates = {
            "last_contact_date": (last_contact_date_min, last_contact_date_max),
            "follow_up_by": (follow_up_by_min, follow_up_by_max),
        }
        customers = (
            customer
            for customer in self.at(session).all("customers")
            if all(contains(text, customer[name]) for name, text in filters.items())
            and all(within(low, customer[name], high) for name, (low, high) in dates.items())
        )
        return page_of(customers, "customers", page, page_size)

    @tool
    async def customer_relationship_manager_update_customer(
        self, session: Session, customer_id: str, field: str, new_value: str
    ) -> Output:
        """Updates a customer record by ID.

        customer_id: ID of the customer
        field: Field to update: 'customer_name', 'assigned_to_email', 'customer_email', 'customer_phone', 'last_contact_date', 'product_interest', 'status', 'notes', 'follow_up_by'
        new_value: New value for the field
        """
        if problem := _unknown({field: new_value}):
            return output(problem)
        return self.updated(session, "customers", customer_id, {field: new_value})

    @tool
    async def customer_relationship_manager_add_customer(
        self,
        session: Session,
        customer_name: str,
        assigned_to_email: str,
        status: str,
        customer_email: str = "",
        customer_phone: str = "",
        last_contact_date: str = "",
        product_interest: str = "",
        notes: str = "",
        follow_up_by: str = "",
    ) -> Output:
        """Adds a new customer record.

        customer_name: Name of the customer
        assigned_to_email: Email address of the person assigned to the customer
        status: One of: 'Qualified', 'Won', 'Lost', 'Lead', 'Proposal'
        customer_email: Email address of the customer
        customer_phone: Phone number of the customer
        last_contact_date: The last date the customer was contacted. Format: YYYY-MM-DD
        product_interest: One of: 'Software', 'Hardware', 'Services', 'Consulting', 'Training'
        notes: Notes about the customer
        follow_up_by: Date for the next follow up. Format: YYYY-MM-DD
        """
        if problem := _unknown({"status": status, "product_interest": product_interest}):
            return output(problem)
        customer = {
            "customer_name": customer_name,
            "assigned_to_email": assigned_to_email,
            "customer_email": customer_email,
            "customer_phone": customer_phone,
            "last_contact_date": last_contact_date,
            "product_interest": product_interest,
            "status": status,
            "follow_up_by": follow_up_by,
            "notes": notes,
        }
        return self.added(session, "customers", customer)

    @tool
    async def customer_relationship_manager_delete_customer(
        self, session: Session, customer_id: str
    ) -> Output:
        """Deletes a customer record by ID.

        customer_id: ID of the customer
        """
        return self.deleted(session, "customers", customer_id)


def _unknown(values: dict[str, str]) -> str:
    """Return the error for an unknown status or product; empty when there is none."""
    for field, allowed in (("status", STATUSES), ("product_interest", PRODUCTS)):
        if values.get(field) and values[field] not in allowed:
            return f"{field} must be one of: {', '.join(allowed)}."
    return ""
