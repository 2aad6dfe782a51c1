"""Classify providers' refusals by their wording, because no status or field is the same for all
providers.

The wordings come from recorded answers of vLLM and llama.cpp if available, else from the projects'
source code and users' reports. A table in the tests lists each wording with its provider and its
class.

A message may quote the request, which may contain anything (a tool with a property
`context_length`, a prompt about API keys). So a context counts as full only if the message compares
sizes. Messages about a single field are excluded first.
"""

import re

_FULL_CODE = re.compile(
    r"context_length_exceeded|exceed_context_size|context_?window_?exceeded", re.IGNORECASE
)
"""Error codes of a full context: OpenAI and many others; llama.cpp; LiteLLM."""

_QUOTING = re.compile(r"^\s*\d+ validation error")
"""The beginning of validation errors of vLLM and pydantic, which then quote the request."""

_ONE_FIELD = re.compile(
    r"invalid (?:json |function )?schema|(?:json ?)?schema (?:for|is|of)\b"
    r"|\b(?:tools|functions)[\[.]\d|function_declarations|response_format|grammar"
    r"|not permitted|required property|additional ?properties"
    # Gemini; OpenAI; pydantic.
    r"|unknown name|un(?:recognized|known|supported|expected) (?:request |keyword )?"
    r"(?:argument|parameter|field|key)|extra (?:inputs|fields)",
    re.IGNORECASE,
)
"""Messages about one field of the request: its name, its type or its schema."""

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
"""Messages about a limit on the answer's length that does not depend on the conversation."""

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
"""OpenAI's message for reasoning that left no tokens for an answer."""

_COMPARED = re.compile(
    r"\d|exceed|longer|greater|too (?:long|large|many)|reduce|reached|must be less", re.IGNORECASE
)
"""The numbers or comparisons that every message about a full context contains."""

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
"""Messages that refuse the account or the key, not the content of the request."""

_NO_KEY = re.compile(
    r"^\W*(?:error\W+)?(?:the )?(?:provided )?(?:api key (?:not valid|expired|is invalid)"
    r"|(?:incorrect|invalid) api key|your credit balance is too low)",
    re.IGNORECASE,
)
"""Messages of Gemini, xAI and Anthropic, which refuse a key with status 400. Matched at the beginning only,
because a row may mention keys."""

_NO_CREDIT = re.compile(
    r"insufficient_quota|exceeded_current_quota|billing_hard_limit", re.IGNORECASE
)
"""Codes of OpenAI and Kimi, with status 429, for an account without credit; waiting does not help.
(Gemini's `exceeded your current quota` can mean a limit per minute.)"""

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
"""Matches more than `_NO_TOOLS`, because it only explains a refusal and does not decide about the
run."""

_CREDIT = re.compile(r"quota|billing|credit", re.IGNORECASE)

_NO_ROUTE = re.compile(r"\W*(?:not found\b|404 page|cannot post|no such route)", re.IGNORECASE)

_WEB_PAGE = re.compile(r"[^<]{0,60}<(?:!doctype )?html", re.IGNORECASE)

_NO_PROVIDER = re.compile(r"no endpoints found|no allowed providers", re.IGNORECASE)
"""OpenRouter's messages for a known model that no provider can serve for this request."""

_NO_MODEL = re.compile(
    r"model_not_found|model_not_available"
    r"|invalid model name passed|is not a valid model id"  # LiteLLM's proxy; OpenRouter
    r"|model not exist|^invalid model: ",  # DeepSeek; Mistral
    re.IGNORECASE,
)
"""Messages for an unknown model. Some providers send them with status 400."""

_NO_ITEM = re.compile(
    r"(?:response|prompt|file|item|conversation|container) (?:object )?with id\b.*not found"
    r"|no such file object|item .* not found",
    re.IGNORECASE | re.DOTALL,
)
"""Messages of OpenAI and vLLM about something that the row refers to and that does not exist."""

_TOOLS = re.compile(r"tool|function|schema|grammar|response_format|regex", re.IGNORECASE)

_ROLES = re.compile(
    r"roles must alternate|unexpected (?:message )?role|role .*not supported"
    r"|system (?:message|role).*(?:beginning|first|not supported)",
    re.IGNORECASE,
)
"""Messages of chat templates that cannot render the order of the roles."""


def is_context_overflow(sentence: str, code: str = "") -> bool:
    """Whether the refusal means that the conversation does not fit the context, in any known
    wording.
    """
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
    """Whether the model read the prompt and reached its limit while it answered."""
    return bool(_SPENT.search(sentence))


def is_too_long_an_answer(sentence: str) -> bool:
    """Whether the requested answer is longer than the model allows for any conversation."""
    return bool(_TOO_LONG_AN_ANSWER.search(sentence))


def is_about_content(sentence: str, code: str = "") -> bool:
    """Whether a moderation or filter refused the row's content."""
    words = f"{sentence} {code}"
    return bool(_CONTENT.search(words)) and not _BANNED.search(sentence)


def lacks_key(sentence: str) -> bool:
    """Whether the endpoint refused the API key, although the status does not show it."""
    return bool(_NO_KEY.search(sentence))


def lacks_credit(code: str) -> bool:
    """Whether the account has no credit left, although the status is that of a busy endpoint."""
    return bool(_NO_CREDIT.search(code))


def lacks_tools(sentence: str) -> bool:
    """Whether the endpoint, or its model, supports no tools at all."""
    return bool(_NO_TOOLS.search(sentence)) and not _QUOTING.match(sentence)


def asks_for_tool_parser(sentence: str) -> bool:
    """Whether the refusal is about tools that the endpoint, or its model, does not support."""
    return bool(_TOOL_PARSER.search(sentence))


def is_about_credit(sentence: str) -> bool:
    """Whether the refusal mentions quota, billing or credit."""
    return bool(_CREDIT.search(sentence))


def lacks_route(sentence: str) -> bool:
    """Whether the message is a web server's "not found" for the path."""
    return bool(_NO_ROUTE.match(sentence))


def is_web_page(sentence: str) -> bool:
    """Whether the answer is an HTML page."""
    return bool(_WEB_PAGE.match(sentence))


def lacks_provider(sentence: str) -> bool:
    """Whether a router knows the model but has no provider that can serve the request."""
    return bool(_NO_PROVIDER.search(sentence))


def lacks_model(sentence: str, code: str = "") -> bool:
    """Whether the endpoint has no model with the requested name."""
    if _NO_MODEL.search(code):
        return True
    return bool(_NO_MODEL.search(sentence)) and not _QUOTING.match(sentence)


def lacks_item(sentence: str) -> bool:
    """Whether the row refers to something that the endpoint does not have, such as a file."""
    return bool(_NO_ITEM.search(sentence))


def is_about_tools(sentence: str) -> bool:
    """Whether the message mentions tools, functions or a schema: they may be why the request was
    refused.
    """
    return bool(_TOOLS.search(sentence))


def is_about_roles(sentence: str) -> bool:
    """Whether the endpoint refused the order of the messages' roles."""
    return bool(_ROLES.search(sentence))
