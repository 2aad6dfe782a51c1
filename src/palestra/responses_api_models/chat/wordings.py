"""What providers' refusals say, told by their wording: no status and no field says it everywhere.

Wordings are captured answers of vLLM and llama.cpp where there are any, else sentences of the
projects' sources and of their users' reports. Each is in a table of the tests, with its provider,
on the side where it belongs.

A sentence may quote the request, which may say anything (a tool with a property `context_length`,
a prompt about API keys). So a context counts as full only where something is said to be longer
than something, and what is known to be about one field is taken out first.
"""

import re

_FULL_CODE = re.compile(
    r"context_length_exceeded|exceed_context_size|context_?window_?exceeded", re.IGNORECASE
)
"""OpenAI and many others; llama.cpp; LiteLLM."""

_QUOTING = re.compile(r"^\s*\d+ validation error")
"""How vLLM and pydantic begin when a field is wrong, before they quote the request."""

_ONE_FIELD = re.compile(
    r"invalid (?:json |function )?schema|(?:json ?)?schema (?:for|is|of)\b"
    r"|\b(?:tools|functions)[\[.]\d|function_declarations|response_format|grammar"
    r"|not permitted|required property|additional ?properties"
    # Gemini; OpenAI; pydantic.
    r"|unknown name|un(?:recognized|known|supported|expected) (?:request |keyword )?"
    r"(?:argument|parameter|field|key)|extra (?:inputs|fields)",
    re.IGNORECASE,
)
"""Of one field of the request: its name, its type, its schema."""

_LIMIT = r"[`'\"]?max(?:imum)?[_ ](?:completion_|new_|output_)?tokens[`'\"]?"

_TOO_LONG_AN_ANSWER = re.compile(
    # Groq; TGI without the length of the input, which makes the sum of both below; Mistral.
    rf"(?<!\+ )(?<!\+ [`'\"]){_LIMIT}(?: for \S+)? must be (?:less|at most|smaller|no more|between|within|<)"
    r"|supports at most \d+ completion tokens|integer above maximum value"  # OpenAI
    r"|maximum allowed number of output tokens"  # Anthropic
    r"|valid range of max_tokens|range of max_tokens should be"  # DeepSeek; Qwen
    r"|maxoutputtokens value of .*supported range"  # Gemini
    r"|max_tokens > \d+ must have stream"  # Fireworks
    r"|maximum tokens you requested exceeds",  # Bedrock
    re.IGNORECASE | re.DOTALL,
)
"""A limit of answers that stands however short the conversation is."""

_FULL = re.compile(
    r"maximum context length|context (?:length|window|size|limit)\b"
    r"|maximum (?:model|prompt|input) length"  # vLLM's decoder prompt; xAI; DeepInfra
    r"|max_model_len|max_seq_len|max_num_tokens"  # vLLM; TensorRT-LLM
    r"|max_tokens must be at least 1, got -?\d"  # vLLM: what the prompt leaves
    r"|(?:prompt|input) is too long"  # Anthropic, Fireworks; Bedrock, Mistral
    r"|input length .*exceeds the maximum allowed length"  # SGLang
    r"|range of input length should be"  # Qwen
    r"|(?:input|prompt) token count .*exceeds"  # Gemini
    r"|`inputs` must have less than \d+ tokens"  # TGI, Together
    r"|`inputs` tokens \+ `max_new_tokens` must be <="  # TGI, Together
    r"|too many tokens: "  # Cohere
    r"|exceeded model token limit|prompt exceeds max length"  # Kimi; GLM
    r"|request body too large for \S+ model. max size: \d+ tokens"  # GitHub
    r"|max_tokens or model output limit was reached"  # OpenAI, of reasoning without an answer
    r"|reduce the length of the (?:messages|input|prompt)",
    re.IGNORECASE | re.DOTALL,
)

_SPENT = re.compile(r"max_tokens or model output limit was reached", re.IGNORECASE)
"""OpenAI, of reasoning that left no room for an answer."""

_COMPARED = re.compile(
    r"\d|exceed|longer|greater|too (?:long|large|many)|reduce|reached|must be less", re.IGNORECASE
)
"""A context that is full is told with numbers, or as too much of something."""

_CONTENT = re.compile(
    r"\b(?:input|prompt|content|request|response|message|text|output)s?\b[^.]{0,60}"
    r"\b(?:flagged|filtered|violat\w+|moderated)"  # OpenRouter; Azure; xAI
    r"|requires moderation|content[_ -](?:filter|policy|management|moderation|safety)"
    r"|ResponsibleAIPolicyViolation|safety[_ ]check|guardrail"  # Azure; xAI, Azure's gateway
    r"|inappropriate content|data_inspection_failed|content exists risk"  # Qwen; DeepSeek
    r"|usage (?:polic|guideline)",  # OpenAI
    re.IGNORECASE,
)

_BANNED = re.compile(
    r"\b(?:account|organi[sz]ation|api[ _-]?key|access)s?\b[^.,]{0,40}"
    r"\b(?:suspended|terminated|disabled|deactivated|banned|revoked|flagged|blocked|denied)",
    re.IGNORECASE,
)
"""Whoever asks is refused, not what is asked."""

_NO_KEY = re.compile(
    r"^\W*(?:error\W+)?(?:the )?(?:provided )?(?:api key (?:not valid|expired|is invalid)"
    r"|(?:incorrect|invalid) api key)",
    re.IGNORECASE,
)
"""Gemini and xAI, which say it with status 400. At the beginning alone: a row may speak of keys."""

_NO_CREDIT = re.compile(
    r"insufficient_quota|exceeded_current_quota|billing_hard_limit", re.IGNORECASE
)
"""OpenAI's and Kimi's codes of status 429 for an account that has nothing left, which no wait helps.
(Gemini says `exceeded your current quota` of what was too much in this minute.)"""

_NO_TOOLS = re.compile(
    r"no endpoints? found that support (?:tool|the provided '?tool)"  # OpenRouter
    r"|requires --(?:enable-auto-tool-choice|tool-call-parser)"  # vLLM
    r"|does not support (?:tools|tool use|tool calling|function calling)"  # Ollama
    r"|(?:\btools|tool calling|tool use|function calling)[`'\"]? (?:is|are) not "
    r"(?:supported|enabled)",  # Groq, OpenAI's first reasoning models; Gemini
    re.IGNORECASE,
)

_TOOL_PARSER = re.compile(
    r"tool-choice|tool-call-parser|not support (?:tools|tool|function)"
    r"|tool(?:s| calling) (?:is|are) not",
    re.IGNORECASE,
)
"""Wider than `_NO_TOOLS`: it only says why a refusal came, not what becomes of the run."""

_CREDIT = re.compile(r"quota|billing|credit", re.IGNORECASE)

_NO_ROUTE = re.compile(r"\W*(?:not found\b|404 page|cannot post|no such route)", re.IGNORECASE)

_WEB_PAGE = re.compile(r"[^<]{0,60}<(?:!doctype )?html", re.IGNORECASE)

_NO_PROVIDER = re.compile(r"no endpoints found|no allowed providers", re.IGNORECASE)
"""OpenRouter, of a model that it knows and cannot serve so."""

_NO_MODEL = re.compile(
    r"model_not_found|model_not_available"
    r"|invalid model name passed|is not a valid model id"  # LiteLLM's proxy; OpenRouter
    r"|model not exist|^invalid model: ",  # DeepSeek; Mistral
    re.IGNORECASE,
)
"""These have status 400 with some."""

_NO_ITEM = re.compile(
    r"(?:response|prompt|file|item|conversation|container) (?:object )?with id\b.*not found"
    r"|no such file object|item .* not found",
    re.IGNORECASE | re.DOTALL,
)
"""OpenAI and vLLM, of what a row refers to."""

_TOOLS = re.compile(r"tool|function|schema|grammar|response_format|regex", re.IGNORECASE)

_ROLES = re.compile(
    r"roles must alternate|unexpected (?:message )?role|role .*not supported"
    r"|system (?:message|role).*(?:beginning|first|not supported)",
    re.IGNORECASE,
)
"""What chat templates say of an order of messages that they cannot render."""


def is_context_overflow(sentence: str, code: str = "") -> bool:
    """Whether a refusal means that the conversation does not fit, in any known wording."""
    if _FULL_CODE.search(code):
        return True
    if _QUOTING.match(sentence) or _ONE_FIELD.search(sentence):
        return False
    if _TOO_LONG_AN_ANSWER.search(sentence):
        return False
    if _FULL_CODE.search(sentence):
        return True
    return bool(_FULL.search(sentence) and _COMPARED.search(sentence))


def is_spent_on_an_answer(sentence: str) -> bool:
    """Whether the model had read the prompt, and ran out of room while it answered."""
    return bool(_SPENT.search(sentence))


def is_too_long_an_answer(sentence: str) -> bool:
    """Whether no answer of this model may be so long, however short the conversation."""
    return bool(_TOO_LONG_AN_ANSWER.search(sentence))


def is_about_content(sentence: str, code: str = "") -> bool:
    """Whether what is said in the row was refused, by a moderation or a filter."""
    words = f"{sentence} {code}"
    return bool(_CONTENT.search(words)) and not _BANNED.search(sentence)


def lacks_key(sentence: str) -> bool:
    """Whether the key was refused, although the status does not say so."""
    return bool(_NO_KEY.search(sentence))


def lacks_credit(code: str) -> bool:
    """Whether the account has nothing left, although the status is that of a busy endpoint."""
    return bool(_NO_CREDIT.search(code))


def lacks_tools(sentence: str) -> bool:
    """Whether the endpoint, or its model, takes no tools at all."""
    return bool(_NO_TOOLS.search(sentence)) and not _QUOTING.match(sentence)


def asks_for_tool_parser(sentence: str) -> bool:
    """Whether a refusal is about tools that the endpoint, or its model, does not take."""
    return bool(_TOOL_PARSER.search(sentence))


def is_about_credit(sentence: str) -> bool:
    """Whether a refusal of the account speaks of its credit."""
    return bool(_CREDIT.search(sentence))


def lacks_route(sentence: str) -> bool:
    """Whether a web server has nothing at this path."""
    return bool(_NO_ROUTE.match(sentence))


def is_web_page(sentence: str) -> bool:
    """Whether the answer is a page for people."""
    return bool(_WEB_PAGE.match(sentence))


def lacks_provider(sentence: str) -> bool:
    """Whether a router knows the model and has nobody who serves it as it was asked for."""
    return bool(_NO_PROVIDER.search(sentence))


def lacks_model(sentence: str, code: str = "") -> bool:
    """Whether the endpoint has no model of this name."""
    if _NO_MODEL.search(code):
        return True
    return bool(_NO_MODEL.search(sentence)) and not _QUOTING.match(sentence)


def lacks_item(sentence: str) -> bool:
    """Whether something that the row refers to is not there."""
    return bool(_NO_ITEM.search(sentence))


def is_about_tools(sentence: str) -> bool:
    """Whether a refused request may have been refused for its tools or its schema."""
    return bool(_TOOLS.search(sentence))


def is_about_roles(sentence: str) -> bool:
    """Whether the order of messages was refused."""
    return bool(_ROLES.search(sentence))
