"""The baseline's resources server: `python -m ...resources BODIES`."""

import sys

from fastapi import FastAPI

from benchmarks.rollout_overhead.seven_hops.http import bodies, make_app, serve


def build(_url: str) -> FastAPI:
    """Seed, one tool, verify."""
    app = make_app("resources")
    kinds = bodies(sys.argv[1])

    @app.post("/seed_session")
    async def seed_session(_body: kinds.Row) -> kinds.Nothing:
        return kinds.Nothing()

    @app.post("/get_weather")
    async def get_weather(body: kinds.Weather) -> dict[str, str]:
        described = f"The weather in {body.city} is cold."
        return {"city": body.city, "weather_description": described}

    @app.post("/verify")
    async def verify(body: kinds.Trajectory) -> kinds.Rewarded:
        return kinds.Rewarded(**body.model_dump(), reward=1.0)

    return app


if __name__ == "__main__":
    serve(build)
