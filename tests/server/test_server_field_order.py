"""The fields of a result row come in one order, whatever order a process gives to sets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import asyncio
from author_servers import server_of, turn
from palestra.schema import RunRequest, VerifyRequest, VerifyResponse, encode_json, fields_of
from palestra.server import ResourcesServer

class Fine(ResourcesServer):
    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0, found="4")

body = RunRequest.model_validate(turn(alpha=1, beta=2, gamma=3))
endpoint = server_of(Fine).typed_endpoint("/verify")
result = asyncio.run(endpoint.invoke(body, session_id="s"))
print(",".join(fields_of(result)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["1", "2", "3"])
def test_a_result_has_its_fields_in_the_order_of_its_row(hash_seed: str) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )

    fields = "responses_create_params,response,reward,alpha,beta,gamma,found"
    assert done.stdout.strip() == fields, done.stderr
