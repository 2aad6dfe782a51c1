"""Forecast what a run takes (requests, tokens, time, disk and money) and list the assumptions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from palestra.config import ConfigTree
from palestra.doctor.survey import AgentRows
from palestra.errors import ConfigError, KnownCause
from palestra.schema import JsonDict

PRICES: Final = "prices"
"""Top-level setting: for each model instance `input` and `output` per million tokens, and
`currency`."""
MEMORY_PER_ROLLOUT: Final = 128 * 1024
MEMORY_AT_REST: Final = 512 * 1024**2
BYTES_PER_TOKEN: Final = 4.0
"""Assumed prompt bytes per token when the endpoint's own count is unknown."""
BYTES_PER_OUTPUT_TOKEN: Final = 6.0
"""Bytes of one response token in the output file, as JSON."""
BYTES_WITH_IDS: Final = 40.0
"""Additional bytes for a response token whose token id and log prob are stored."""
UNKNOWN_OUTPUT_TOKENS: Final = 1000
"""Assumed tokens of a response when neither a limit nor an earlier run is known."""


@dataclass(frozen=True, slots=True)
class RequestPace:
    """The measured speed of one request to a model."""

    seconds: float
    """Seconds from the request to the response."""
    output_tokens: int
    bytes_per_token: float = BYTES_PER_TOKEN
    """Bytes per token of the prompt."""

    def seconds_for(self, tokens: float) -> float:
        """Return the seconds for a response of this many tokens, without concurrent requests."""
        return self.seconds + (tokens - self.output_tokens) * self.seconds / max(
            self.output_tokens, 1
        )


@dataclass(frozen=True, slots=True)
class Price:
    """The price per million input and output tokens."""

    input: float
    output: float
    currency: str = "USD"


@dataclass(frozen=True, slots=True)
class Share:
    """The rollouts of one agent with one model."""

    rows: AgentRows
    model: str
    pace: RequestPace | None = None
    judged: bool = False
    token_ids: bool = False


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast for the rollouts that are still to run."""

    rollouts: int
    requests: int
    judge_requests: int
    input_tokens: int
    output_tokens: int
    output_bytes: int
    in_flight: int
    seconds: float | None
    cost: Mapping[str, float]
    """The cost by currency; empty when no price is configured."""
    rests_on: tuple[str, ...]

    def as_json(self) -> JsonDict:
        """Return all fields as a JSON object."""
        return asdict(self)

    def _at_least(self) -> str:
        """Return the time as a lower bound: the endpoint's speed under the full load is unknown."""
        span = _span(self.seconds or 0.0)
        return f"at least {span}, if {self.in_flight:,} at once are answered as fast as one"

    def lines(self) -> list[str]:
        """Return the forecast as lines for people."""
        time = "unknown (no request was answered)" if self.seconds is None else self._at_least()
        cost = ", ".join(f"{value:,.2f} {currency}" for currency, value in self.cost.items())
        judge = f" and {self.judge_requests:,} of the judge" if self.judge_requests else ""
        rollouts = "1 rollout" if self.rollouts == 1 else f"{self.rollouts:,} rollouts"
        return [
            f"forecast for {rollouts}, {self.in_flight:,} at once:",
            f"  requests at least {self.requests:,} of the model{judge}",
            f"  tokens   {self.input_tokens:,} in, {self.output_tokens:,} out",
            f"  time     {time}",
            f"  disk     {_size(self.output_bytes)}",
            *([f"  cost     {cost}"] if cost else []),
            *(f"  ({text})" for text in self.rests_on),
        ]


def prices_in(tree: ConfigTree) -> dict[str, Price]:
    """Return the configured price of each model instance. Raises ConfigError: an entry is not a
    price.
    """
    price_table = tree.get(PRICES) or {}
    try:
        return {
            str(model): Price(
                float(price["input"]), float(price["output"]), str(price.get("currency", "USD"))
            )
            for model, price in price_table.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{PRICES} cannot be read as prices: {error}",
            hint=f"{PRICES}: {{policy_model: {{input: 0.15, output: 0.60, currency: USD}}}}, "
            "per million tokens",
            cause=KnownCause.BAD_VALUE,
        ) from None


def forecast(
    shares: Sequence[Share],
    *,
    remaining: int,
    in_flight: int,
    prices: Mapping[str, Price],
    seen_output_tokens: float | None = None,
) -> Forecast:
    """Forecast the `remaining` rollouts. `seen_output_tokens`: the mean output tokens of an earlier
    run.
    """
    rollouts_asked = sum(share.rows.rollouts for share in shares)
    part = remaining / rollouts_asked if rollouts_asked else 0.0
    tokens = {share.model: _answer_tokens(share, seen_output_tokens) for share in shares}
    inputs = {id(share): share.rows.prompt_bytes / _bytes_per_token(share) for share in shares}
    outputs = {id(share): share.rows.rollouts * tokens[share.model] for share in shares}
    cost: dict[str, float] = {}
    for share in shares:
        price = prices.get(share.model)
        if price is not None:
            spent = inputs[id(share)] * price.input + outputs[id(share)] * price.output
            cost[price.currency] = cost.get(price.currency, 0.0) + part * spent / 1e6
    return Forecast(
        rollouts=remaining,
        requests=remaining,
        judge_requests=round(part * sum(s.rows.rollouts for s in shares if s.judged)),
        input_tokens=round(part * sum(inputs.values())),
        output_tokens=round(part * sum(outputs.values())),
        output_bytes=_bytes(shares, outputs, part),
        in_flight=in_flight,
        seconds=_seconds(shares, tokens, part, in_flight),
        cost=cost,
        rests_on=_rests_on(shares, seen_output_tokens),
    )


def _answer_tokens(share: Share, mean_tokens: float | None) -> float:
    most_output = share.rows.most_output
    expected = float(UNKNOWN_OUTPUT_TOKENS) if mean_tokens is None else mean_tokens
    if most_output is None:
        return expected
    return float(most_output) if mean_tokens is None else min(float(most_output), mean_tokens)


def _bytes_per_token(share: Share) -> float:
    return share.pace.bytes_per_token if share.pace else BYTES_PER_TOKEN


def _bytes(shares: Sequence[Share], outputs: Mapping[int, float], part: float) -> int:
    """Return the bytes of the run's files: the materialized inputs, and the scored rows still to
    come.

    A scored row holds its input row and the response. `part`: the share of rollouts still to run.
    """
    row_bytes = sum(share.rows.row_bytes for share in shares)
    answers = sum(
        outputs[id(share)] * (BYTES_PER_OUTPUT_TOKEN + BYTES_WITH_IDS * share.token_ids)
        for share in shares
    )
    return round(row_bytes + part * (row_bytes + answers))


def _seconds(
    shares: Sequence[Share], tokens: Mapping[str, float], part: float, in_flight: int
) -> float | None:
    paced = [(share, share.pace) for share in shares if share.pace is not None]
    if not paced or len(paced) < len(shares):
        return None
    slot_seconds = sum(
        pace.seconds_for(tokens[share.model]) * share.rows.rollouts * part for share, pace in paced
    )
    longest = max(pace.seconds_for(tokens[share.model]) for share, pace in paced)
    return max(longest, slot_seconds / max(in_flight, 1))


def _rests_on(shares: Sequence[Share], mean_tokens: float | None) -> tuple[str, ...]:
    texts = ["one model call a rollout; agents with tools make more"]
    if mean_tokens is not None:
        texts.append(f"answers of {mean_tokens:.0f} tokens, the mean of the existing rollouts")
    elif all(share.rows.most_output is not None for share in shares):
        texts.append("answers as long as max_output_tokens allows")
    else:
        texts.append(f"answers of {UNKNOWN_OUTPUT_TOKENS} tokens: no row limits them")
    texts += [
        f"{share.model}: {share.pace.seconds:.2f} s for {share.pace.output_tokens} tokens, "
        "measured with one request; an endpoint at work is slower"
        for share in {share.model: share for share in shares}.values()
        if share.pace is not None
    ]
    return tuple(texts)


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _size(count: int) -> str:
    if count < 10 * 1024**2:
        return f"{math.ceil(count / 1024):,} KiB"
    return f"{count / 1024**2:,.0f} MiB"
