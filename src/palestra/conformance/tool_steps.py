"""The check of the tools: none of them ends in an exception that nobody meant."""

from palestra.conformance.arguments import arguments_for
from palestra.conformance.examination import Examination, Probe, result, skipped
from palestra.conformance.playing import Verdict
from palestra.conformance.report import CheckResult, Finding
from palestra.schema import TOOL_FAILURES, called, response_of


async def check_tools(work: Examination) -> CheckResult:
    """Each tool is called once with arguments that fit; what broke in any probe is told."""
    tools = sorted(work.door.tools)
    if not tools or work.door.takes_turns or not work.rows:
        return skipped("tools", "it has no tools" if work.rows else "there are no example rows")
    for name in tools:
        call = called(name, arguments_for(work.door.schemas.get(name, {})))
        response = response_of(call, "Done.")
        work.let_judge(award=False)
        probe = Probe("tool call", work.rows[0], response, 0)
        await work.ask(probe, blocked_s=work.limits.blocked_s)
    return result("tools", len(tools), _broken(work))


def _broken(work: Examination) -> list[Finding]:
    """One finding for each tool and type of exception, with the first answer that did it."""
    found: dict[tuple[str, str], Finding] = {}
    for probe, verdict in work.all_verdicts:
        for tool, kind, message in _faults(verdict):
            problem = (
                f"the tool {tool} raised {kind}: {message}; mend it, or raise "
                "palestra.ToolError where it refuses on purpose"
            )
            found.setdefault((tool, kind), probe.finding(problem))
    return list(found.values())


def _faults(verdict: Verdict) -> list[tuple[str, str, str]]:
    told = (verdict.reported or {}).get(TOOL_FAILURES)
    return [
        (str(fault["tool"]), str(fault["type"]), str(fault["message"]))
        for fault in (told if isinstance(told, list) else ())
        if isinstance(fault, dict) and {"tool", "type", "message"} <= fault.keys()
    ]
