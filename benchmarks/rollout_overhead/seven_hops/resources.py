"""The baseline's resources server: `python -m ...resources`."""

from fastapi import FastAPI

from benchmarks.rollout_overhead.seven_hops.http import make_app, serve
from benchmarks.rollout_overhead.seven_hops.wire import Nothing, Rewarded, Row, Trajectory, Weather


def build(_url: str) -> FastAPI:
    """Seed, one tool, verify."""
    app = make_app("resources")

    @app.post("/seed_session")
    async def seed_session(_body: Row) -> Nothing:
        return Nothing()

    @app.post("/get_weather")
    async def get_weather(body: Weather) -> dict[str, str]:
        described = f"The weather in {body.city} is cold."
        return {"city": body.city, "weather_description": described}

    @app.post("/verify")
    async def verify(body: Trajectory) -> Rewarded:
        return Rewarded(**body.model_dump(), reward=1.0)

    return app


if __name__ == "__main__":
    serve(build)
