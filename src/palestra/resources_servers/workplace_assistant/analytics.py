"""The tools for website analytics."""

from collections.abc import Iterator

from palestra.resources_servers.workplace_assistant.desk import Desk, Output, output, within
from palestra.resources_servers.workplace_assistant.records import Record
from palestra.server import Session, tool

PLOTTED = (
    "total_visits",
    "session_duration_seconds",
    "user_engaged",
    "visits_direct",
    "visits_referral",
    "visits_search_engine",
    "visits_social_media",
)
PLOTS = ("bar", "line", "scatter", "histogram")


class AnalyticsTools(Desk):
    """Tools that count website visits and draw plots of them."""

    @tool
    async def analytics_get_visitor_information_by_id(
        self, session: Session, visitor_id: str
    ) -> Output:
        """Returns the analytics data for a given visitor ID.

        visitor_id: ID of the visitor
        """
        visit = self.at(session).find("visits", visitor_id)
        return output(dict(visit) if visit else f"No visitor with the ID {visitor_id}.")

    @tool
    async def analytics_create_plot(
        self, session: Session, time_min: str, time_max: str, value_to_plot: str, plot_type: str
    ) -> Output:
        """Plots the analytics data for a given time range and value.

        time_min: Start date of the time range. Date format is YYYY-MM-DD
        time_max: End date of the time range. Date format is YYYY-MM-DD
        value_to_plot: 'total_visits', 'session_duration_seconds', 'user_engaged', 'visits_direct', 'visits_referral', 'visits_search_engine', 'visits_social_media'
        plot_type: 'bar', 'line', 'scatter' or 'histogram'
        """
        if value_to_plot not in PLOTTED:
            return output(f"value_to_plot must be one of: {', '.join(PLOTTED)}.")
        if plot_type not in PLOTS:
            return output(f"plot_type must be one of: {', '.join(PLOTS)}.")
        path = f"plots/{time_min}_{time_max}_{value_to_plot}_{plot_type}.png"
        self.at(session).plots.append(path)
        return output(path)

    @tool
    async def analytics_total_visits_count(
        self, session: Session, time_min: str | None = None, time_max: str | None = None
    ) -> Output:
        """Returns the total number of visits within a specified time range, by day.

        time_min: Start date of the time range. Date format is YYYY-MM-DD
        time_max: End date of the time range. Date format is YYYY-MM-DD
        """
        return output(_by_day(self._visits(session, time_min, time_max)))

    @tool
    async def analytics_engaged_users_count(
        self, session: Session, time_min: str | None = None, time_max: str | None = None
    ) -> Output:
        """Returns the number of engaged users within a specified time range, by day.

        time_min: Start date of the time range. Date format is YYYY-MM-DD
        time_max: End date of the time range. Date format is YYYY-MM-DD
        """
        visits = self._visits(session, time_min, time_max)
        return output(_by_day(visit for visit in visits if visit["user_engaged"] == "True"))

    @tool
    async def analytics_traffic_source_count(
        self,
        session: Session,
        time_min: str | None = None,
        time_max: str | None = None,
        traffic_source: str | None = None,
    ) -> Output:
        """Returns the number of visits from a specific traffic source, by day.

        time_min: Start date of the time range. Date format is YYYY-MM-DD
        time_max: End date of the time range. Date format is YYYY-MM-DD
        traffic_source: 'direct', 'referral', 'search engine', 'social media'
        """
        visits = self._visits(session, time_min, time_max)
        return output(_by_day(v for v in visits if traffic_source in {None, v["traffic_source"]}))

    @tool
    async def analytics_get_average_session_duration(
        self, session: Session, time_min: str | None = None, time_max: str | None = None
    ) -> Output:
        """Returns the average session duration within a specified time range, by day, in seconds.

        time_min: Start date of the time range. Date format is YYYY-MM-DD
        time_max: End date of the time range. Date format is YYYY-MM-DD
        """
        durations: dict[str, list[int]] = {}
        for visit in self._visits(session, time_min, time_max):
            seconds = int(visit["session_duration_seconds"])
            durations.setdefault(visit["date_of_visit"], []).append(seconds)
        return output({day: sum(values) / len(values) for day, values in sorted(durations.items())})

    def _visits(
        self, session: Session, time_min: str | None, time_max: str | None
    ) -> Iterator[Record]:
        return (
            visit
            for visit in self.at(session).all("visits")
            if within(time_min, visit["date_of_visit"], time_max)
        )


def _by_day(visits: Iterator[Record]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for visit in visits:
        counts[visit["date_of_visit"]] = counts.get(visit["date_of_visit"], 0) + 1
    return dict(sorted(counts.items()))
