// `/r/ID/failures`: failed attempts by class, layer, cause and innermost message.

import { request } from "../api";
import { amount, count } from "../format";
import { useKeys, useReply } from "../hooks";
import { Panel, Theirs, WithOptions } from "../parts/common";
import { useRowKeys } from "../parts/table";
import { keyText, rolloutPlace, runPlace, tablePlace } from "../places";
import type { FailureNode, FindingLine } from "../replies";
import { go } from "../router";
import { sentence, visible, visibleLine } from "../text";
import type { RunView } from "./layout";

export const FailuresPage = ({ view }: { view: RunView }) => {
  useRowKeys();
  useKeys({ Escape: () => go(runPlace(view.id)) });
  const reply = useReply(request("failures", { run: view.id }), { version: view.version });
  return (
    <>
      <h1 class="small">Failures</h1>
      <Panel reply={reply} class="first">
        {(tree) => (
          <>
            {tree.absent && <p class="lead">{visible(tree.absent)}</p>}
            {tree.nodes.length > 0 && <p class="lead">{amount(tree.attempts, "failed attempt")}. A failure is not a reward of 0: it counts in no mean.</p>}
            {tree.consequences.map((text) => (
              <p key={text}>{visible(text)}</p>
            ))}
            <div class="failure-tree">
              {tree.nodes.map((node) => (
                <Node key={node.name} node={node} parent={null} run={view.id} isOpen={tree.nodes.length <= 4} />
              ))}
            </div>
            {tree.findings.length > 0 && (
              <>
                <h2 class="section">What the doctor says</h2>
                <ul class="doctor">
                  {tree.findings.map((finding, at) => (
                    <Finding key={at} finding={finding} run={view.id} />
                  ))}
                </ul>
              </>
            )}
          </>
        )}
      </Panel>
    </>
  );
};

const LEVELS: Readonly<Record<FailureNode["level"], string>> = { class: "", layer: "layer ", cause: "cause: ", message: "" };

interface NodeProps {
  node: FailureNode;
  /** What it repeats of its parent is not said twice. */
  parent: FailureNode | null;
  run: string;
  isOpen: boolean;
}

const Node = ({ node, parent, run, isOpen }: NodeProps) => (
  <details class={`node ${node.level}`} open={isOpen}>
    <summary data-row>
      <span class="node-name">
        {LEVELS[node.level]}
        {node.level === "message" ? <Theirs text={node.name || "(no message)"} limit={240} /> : <b>{visible(node.name) || (node.level === "cause" ? "not known" : "not recorded")}</b>}
      </span>
      {node.attempts !== parent?.attempts && (
        <>
          <span class="n">{amount(node.attempts, "attempt")}</span>
          <span class="n">{amount(node.rollouts, "rollout")}</span>
          <span class="n">{node.without_score > 0 ? `${count(node.without_score)} without a score` : "all scored later"}</span>
        </>
      )}
    </summary>
    <div class="node-body">
      {node.likely_cause && node.likely_cause !== parent?.likely_cause && (
        <p>
          <Said text={node.likely_cause} />
        </p>
      )}
      {node.next_action && node.next_action !== parent?.next_action && (
        <p>
          <b>Next: </b>
          <Said text={node.next_action} />
        </p>
      )}
      {node.query && node.level !== "message" && node.attempts !== parent?.attempts && (
        <p>
          <a href={tablePlace(run, "rollouts", node.query)}>All its rollouts</a>
        </p>
      )}
      {node.nodes.map((inner) => (
        <Node key={`${inner.level} ${inner.name}`} node={inner} parent={node} run={run} isOpen={node.nodes.length <= 3} />
      ))}
      {node.others > 0 && <p class="quiet">and {amount(node.others, "attempt")} with rarer messages</p>}
      {node.rows.length > 0 && (
        <p class="links">
          {node.rows.map((row) => (
            <a key={`${row.row} ${row.attempt}`} href={rolloutPlace(run, row.task, row.rollout, { row: row.row })} data-tip={row.kept ? "its answer was kept" : `attempt ${row.attempt}`}>
              {visible(keyText(row.task, row.rollout, row.row))}
              {row.kept && " (answer)"}
            </a>
          ))}
          {node.attempts > node.rows.length && <span class="quiet">and {count(node.attempts - node.rows.length)} more</span>}
        </p>
      )}
    </div>
  </details>
);

/** A sentence of the doctor; it may quote a row. */
const Said = ({ text }: { text: string }) => (
  <bdi class="theirs" dir="auto">
    <WithOptions text={sentence(visibleLine(text, 1_000))} />
  </bdi>
);

const Finding = ({ finding, run }: { finding: FindingLine; run: string }) => (
  <li class={finding.severity}>
    <p>
      <span class={`severity ${finding.severity}`}>{finding.severity}</span> <b>
        <Theirs text={finding.symptom} limit={500} />
      </b>{" "}
      <span class="quiet">
        {visible(finding.layer)}, {visible(finding.cause)}
      </span>
    </p>
    {finding.likely_cause && (
      <p>
        <Said text={finding.likely_cause} />
      </p>
    )}
    {finding.next_action && (
      <p>
        <b>Next: </b>
        <Said text={finding.next_action} />
      </p>
    )}
    {finding.task !== null && finding.rollout !== null && (
      <p>
        <a href={rolloutPlace(run, finding.task, finding.rollout)}>{visible(keyText(finding.task, finding.rollout))}</a>
      </p>
    )}
    {finding.evidence.length > 0 && (
      <details>
        <summary>Evidence</summary>
        {finding.evidence.map((entry, at) => (
          <div key={at}>
            <p class="quiet">
              <Theirs text={entry.name} />
            </p>
            <pre class="theirs" dir="auto">
              {visible(entry.value)}
            </pre>
          </div>
        ))}
      </details>
    )}
  </li>
);
