"""The field's layout as a baseline: three server processes that talk HTTP and JSON.

    collector -> agent /run -> resources /seed_session
                            -> agent /v1/responses -> model /v1/responses -> upstream   (twice)
                                                   -> resources /get_weather
                            -> resources /verify

Seven exchanges and, with the second turn, nine. Every server is a FastAPI app with typed
bodies, a session in a signed cookie and two function-style middlewares. Written for this
benchmark, and kept lean where frameworks are not: orjson, one shared connection pool per
process, no access log, no telemetry. What is in use today costs more.

Its bodies are of slim pydantic types (`wire`), or of the `openai` package's, as in the field
(`vendor`).
"""
