"""The services of a job (start on a free port, wait, watch, restart), and its main step.

The states of a service: starting -> ready -> (ended) -> failed | starting again | ignored
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from palestra.cluster.plan import Component, ExitAction
from palestra.cluster.ports import NoFreePort, answered, listeners_on
from palestra.cluster.records import tail, write_object
from palestra.cluster.supervisor import probe, processes, steps
from palestra.cluster.supervisor.context import Context
from palestra.cluster.supervisor.probe import ProbeAnswer, ProbeVerdict, Waited

DRAINED = 75
"""The main step's exit code when it started no more rollouts, as asked, and some are left."""
RESERVE_S = 20.0
"""The part of the time before the limit that is reserved for ending processes and writing results.
"""
LEAST_DRAIN_S = 5.0


class MainStep:
    """The main step of a job. It runs once. When asked to drain, it gets some time and is then
    ended.
    """

    def __init__(self, context: Context) -> None:
        self.component = context.task.job.main
        self._context = context
        self._process: subprocess.Popen[bytes] | None = None
        self._end_at: float | None = None
        self.log: Path | None = None
        self.overdue = False
        """Whether it was ended because it took too long to drain."""

    def start(self) -> None:
        """Start the main step. Raises OSError: the program does not exist."""
        context = self._context
        context.drain_file.unlink(missing_ok=True)
        nodes = context.nodes_for(self.component) if not context.single_node else ()
        head = nodes[0] if nodes else "127.0.0.1"
        step_place = steps.StepPlace(context.tokens(0, head, 0), nodes)
        self._process, self.log = context.start(self.component, step_place, 0)
        context.say(f"{self.component.name} runs; it prints to {self.log.name}")

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def code(self) -> int | None:
        """The exit code; None while the main step runs or if it never started."""
        return self._process.poll() if self._process is not None else None

    def drain(self, within_s: float) -> None:
        """Ask the main step to start no more rollouts, and end it if it takes longer than
        `within_s` allows.
        """
        self._context.drain_file.touch()
        self._end_at = time.monotonic() + max(LEAST_DRAIN_S, within_s - RESERVE_S)

    def admit_no_more(self) -> None:
        """Ask the main step to start no more rollouts, without a deadline: it is about to be ended."""
        if self.running:
            self._context.drain_file.touch()

    def look(self) -> None:
        """End the main step when its time to drain is over."""
        if self._end_at is not None and self.running and time.monotonic() > self._end_at:
            self._context.say(f"{self.component.name} did not finish its requests in time")
            self._end_at = None
            self.overdue = True
            self.end()

    def end(self) -> None:
        """End the main step now, with SIGTERM first."""
        if self._process is not None:
            processes.end(self._process)

    def wait(self, seconds: float) -> None:
        """Wait at most `seconds` for the main step to end by itself."""
        if self._process is not None:
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                return

    def tail(self) -> str:
        return tail(self.log) if self.log else ""


MISSES = 5
"""After this many probes in a row without an answer, a running service counts as hung."""
NEW_PORTS = 3
"""How often a service gets a new port because another process took its port. Not counted as
restarts."""


class ServiceState(Enum):
    """The state of a service."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    IGNORED = "ignored"
    """The service is gone, and its `on_exit` policy is to go on without it."""
    STOPPED = "stopped"


@dataclass(frozen=True)
class ServiceFailure:
    """Why a service, and with it the job, has failed. `code`: the job's exit code."""

    component: str
    reason: str
    code: int
    log: str = ""
    """The last lines of the service's log."""


class Service:
    """One service of the job. The supervisor calls `look` again and again."""

    def __init__(self, context: Context, component: Component) -> None:
        self.component = component
        self.state = ServiceState.WAITING
        self.reason = ""
        self.restarts = 0
        self._context = context
        self._new_ports = 0
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[Path] = []
        self._port = 0
        self._address = ""
        self._watch = _Watch()
        if component.probe is not None:
            probe.check(component.probe)

    @property
    def settled(self) -> bool:
        """Whether the job no longer waits for this service: it is ready or ignored."""
        return self.state in {ServiceState.READY, ServiceState.IGNORED}

    def start(self) -> None:
        """Start the service on its nodes. Raises NoFreePort. Raises OSError: the program does not
        exist.
        """
        context, component = self._context, self.component
        nodes = context.nodes_for(component)
        if component.has_port:
            self._port, self._address = context.port_on(nodes[0] if nodes else "", component)
        head_port = 0
        if component.has_head_port:
            head_port, _ = context.port_on(nodes[0] if nodes else "", component)
        head = self._address or (nodes[0] if nodes else "127.0.0.1")
        many = steps.by_node(component) and bool(nodes)
        step_places = [
            steps.StepPlace(
                context.tokens(rank, head, self._port, head_port),
                (node,),
                one_of_many=True,
                rank=rank,
            )
            for rank, node in enumerate(nodes if many else ())
        ] or [steps.StepPlace(context.tokens(0, head, self._port, head_port), nodes)]
        self._processes, self._logs = [], []
        for step_place in step_places:
            process, log = context.start(component, step_place, self.restarts + self._new_ports)
            self._processes.append(process)
            self._logs.append(log)
        self.state, self.reason = ServiceState.STARTING, "started"
        if self._port:
            self._publish()
        self._watch = _Watch(self)
        self._watch.start()

    def _publish(self) -> None:
        write_object(
            self._context.files.endpoint(self.component.name),
            {
                "component": self.component.name,
                "host": self._address,
                "port": self._port,
                "nonce": self._context.nonce,
                "pid": os.getpid(),
                "job_id": self._context.job_id,
                "restart": self._context.restart,
            },
            mode=0o600,  # its nonce is a key
        )

    def look(self) -> ServiceFailure | None:
        """Update the service's state. Return a failure when it ends the job."""
        if self.state not in {ServiceState.STARTING, ServiceState.READY}:
            return None
        how_it_ended = self.ended()
        if how_it_ended:
            return self._lost(
                ServiceFailure(
                    self.component.name, how_it_ended, ProbeVerdict.DIED.value, self._tail()
                )
            )
        waited = self._watch.result
        if waited is None:
            return None
        if waited.ready:
            if self.state is ServiceState.STARTING:
                self.state, self.reason = ServiceState.READY, waited.text
                self._context.say(
                    f"{self.component.name} is ready after {waited.elapsed_s:.0f} s: {waited.text}"
                )
            return None
        failure = ServiceFailure(
            self.component.name, waited.text, waited.verdict.value, self._tail()
        )
        self.stop()
        return self._lost(failure)

    def _lost(self, failure: ServiceFailure) -> ServiceFailure | None:
        """Handle a lost service: restart it, go on without it, or return the failure of the job."""
        context, component = self._context, self.component
        self._watch.stop()
        self._end_all()
        was, self.state, self.reason = self.state, ServiceState.FAILED, failure.reason
        context.say(f"{component.name}: {failure.reason}")
        if was is ServiceState.STARTING and self._port_taken() and self._new_ports < NEW_PORTS:
            self._new_ports += 1
            context.say(
                f"{component.name}: another process uses its port, so it starts again on a new one"
            )
            return self._restart(failure)
        if component.on_exit.action is ExitAction.IGNORE:
            self.state = ServiceState.IGNORED
            context.record("ignored", component=component.name, reason=failure.reason)
            return None
        if (
            component.on_exit.action is ExitAction.RESTART
            and self.restarts < component.on_exit.restarts
        ):
            self.restarts += 1
            context.record("restarted", component=component.name, reason=failure.reason)
            context.say(
                f"{component.name}: restart {self.restarts} of {component.on_exit.restarts}"
            )
            return self._restart(failure)
        if self.restarts:
            reason = f"{failure.reason} (after {self.restarts} restarts)"
            return ServiceFailure(component.name, reason, failure.code, failure.log)
        return failure

    def _port_taken(self) -> bool:
        """Whether another process listens on the port of this service, whose own process has ended."""
        if not self._port or not answered(self._address, self._port):
            return False
        return not listeners_on(self._port, self._mark()).ours

    def _restart(self, failure: ServiceFailure) -> ServiceFailure | None:
        try:
            self.start()
        except (NoFreePort, OSError) as error:
            return ServiceFailure(self.component.name, str(error), failure.code)
        return None

    def stop(self) -> None:
        """End the service's processes, with SIGTERM first."""
        self._watch.stop()
        self._end_all()
        with contextlib.suppress(FileNotFoundError):
            self._context.files.endpoint(self.component.name).unlink()
        if self.state is not ServiceState.FAILED:
            self.state = ServiceState.STOPPED

    def _end_all(self) -> None:
        for process in self._processes:
            processes.end(process)

    def ended(self) -> str:
        """Return how one of the service's processes ended; empty while all run."""
        for process in self._processes:
            code = process.poll()
            if code is not None:
                when = "early" if self.state is ServiceState.READY else "before it was ready"
                return f"{self.component.name} ended {when}: it {processes.how_it_ended(code)}"
        return ""

    def ask(self) -> ProbeAnswer:
        """Probe the service once, and check that our own process answers."""
        component_probe = self.component.probe
        if component_probe is None:
            return ProbeAnswer(
                ProbeVerdict.READY, "its process runs, and no further check is configured"
            )
        answer = probe.ask(
            f"http://{self._address}:{self._port}", component_probe, self._context.nonce
        )
        if answer.verdict is ProbeVerdict.READY and self._context.single_node:
            listeners = listeners_on(self._port, self._mark())
            if listeners.strangers and not listeners.ours:
                return ProbeAnswer(
                    ProbeVerdict.AUTH_REFUSED,
                    f"port {self._port} is used by process {listeners.strangers[0]}, which this "
                    "job did not start",
                )
        return answer

    def _mark(self) -> str:
        return f"PALESTRA_NONCE={self._context.nonce}"

    def _tail(self) -> str:
        return next((text for text in map(tail, self._logs) if text), "")

    def told(self) -> dict[str, object]:
        """Return the service's fields for `state.json`."""
        return {
            "name": self.component.name,
            "role": self.component.role,
            "state": self.state.value,
            "reason": self.reason,
            "restarts": self.restarts,
            "address": f"{self._address}:{self._port}" if self._port else None,
            "logs": [log.name for log in self._logs],
        }


class _Watch:
    """Waits in a thread until a service is ready, then keeps checking it."""

    def __init__(self, service: Service | None = None) -> None:
        self.result: Waited | None = None
        """How waiting ended, and later, why the service counts as lost."""
        self._service = service
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True, name="probe").start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        service = self._service
        if service is None:
            return
        component_probe = service.component.probe
        if component_probe is None:
            self.result = Waited(ProbeVerdict.READY, "it runs", 0.0)
            return
        waited = probe.wait_ready(
            service.ask,
            component_probe,
            died=service.ended,
            stop=self._stopped.is_set,
            report=lambda text: service._context.say(f"{service.component.name}: {text}"),  # noqa: SLF001  # of one module
        )
        if waited.verdict in {ProbeVerdict.DIED, ProbeVerdict.STOPPED}:
            return  # whoever looks at the process says so
        self.result = waited
        if waited.ready:
            self._guard(service, component_probe.interval_s)

    def _guard(self, service: Service, interval_s: float) -> None:
        misses, since = 0, time.monotonic()
        while not self._stopped.wait(interval_s):
            answer = service.ask()
            if answer.verdict is ProbeVerdict.READY:
                misses, since = 0, time.monotonic()
                continue
            misses += 1
            silent_s = time.monotonic() - since
            if answer.verdict is not None:
                self.result = Waited(answer.verdict, answer.text, silent_s)
                return
            if misses >= MISSES:
                text = f"its process runs, but has not answered for {silent_s:.0f} s: {answer.text}"
                self.result = Waited(ProbeVerdict.TIMEOUT, text, silent_s)
                return
