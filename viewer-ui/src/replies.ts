// Made by scripts/viewer_types.py from src/palestra/viewer/replies and endpoints.py.

export interface ErrorReply {
  error: string;
  message: string;
  hint: string;
  layer: string;
  where: string;
  position: number | null;
  nearest: string;
  indexed: Base | null;
}

export interface Base {
  rows: number;
  indexed_bytes: number;
  total_bytes: number;
  complete: boolean;
  version: number;
}

export interface ViewerSession {
  version: string;
  query: string;
  tokenizer: boolean;
  paths: string[];
  clusters: ClusterLink[];
}

export interface ClusterLink {
  id: string;
  name: string;
}

export interface RunList {
  runs: RunLine[];
}

export interface RunLine {
  id: string;
  path: string;
  name: string;
  environment: string;
  model: string;
  state: "running" | "done" | "stopped";
  started_at: number | null;
  requested: number;
  scored: number;
  failed: number;
  mean_reward: IntervalValue;
  problem: string;
  rate: number | null;
  left_s: number | null;
  health: "starting" | "healthy" | "slow" | "failing" | "standing still" | "";
  health_text: string;
  health_advice: string;
  in_flight: number | null;
  age_s: number | null;
}

export interface IntervalValue {
  value: number | null;
  low: number | null;
  high: number | null;
}

export interface RunPage {
  run: RunLine;
  title: string;
  settings: NamedText[];
  command: string;
  files: string[];
  base: Base;
  clusters: ClusterLink[];
  problems: UnreadableLine[];
  marks: string[];
  group_problem: string;
  query: string;
}

export interface NamedText {
  name: string;
  value: string;
}

export interface UnreadableLine {
  file: string;
  line: number;
  reason: string;
}

export interface RunFigures {
  figures: Figures | null;
  absent: string;
  base: Base;
  computed_at: number;
}

export interface Figures {
  binary: boolean;
  key_figures: KeyFigure[];
  findings: Remark[];
  notices: string[];
  solved: Count[];
  pass_rates: FigureBar[];
  curve: PassCurvePoint[];
  rewards: FigureBar[];
  lengths: LengthBar[];
  outcomes: OutcomeLine[];
  groups: GroupFigures[];
  grouped_by: string;
  components: ComponentLine[];
}

export interface KeyFigure {
  name: string;
  value: string;
  note: string;
}

export interface Remark {
  head: string;
  text: string;
  query: string;
}

export interface Count {
  name: string;
  count: number;
}

export interface FigureBar {
  label: string;
  tick: string;
  count: number;
  query: string;
  of: "rollouts" | "tasks";
}

export interface PassCurvePoint {
  k: number;
  best: IntervalValue;
  worst: number | null;
  tasks: number;
}

export interface LengthBar {
  low: number;
  high: number;
  rollouts: number;
  reward: IntervalValue;
  query: string;
}

export interface OutcomeLine {
  name: string;
  count: number;
  share: number;
  meaning: string;
  query: string;
}

export interface GroupFigures {
  name: string;
  tasks: number;
  requested: number;
  scored: number;
  mean_reward: IntervalValue | null;
  pass_at_1: number | null;
  best_k: number;
  best: number | null;
  best_tasks: number;
  scored_tasks: number;
  never: number | null;
  sometimes: number | null;
  always: number | null;
  output_tokens: number | null;
  query: string;
}

export interface ComponentLine {
  name: string;
  rollouts: number;
  mean: IntervalValue;
  least: number;
  most: number;
}

export interface Live {
  run: RunLine;
  base: Base;
  phases: PhaseLine[];
  oldest: InFlight[];
  last_failure: string;
  at: number;
  changed: boolean;
}

export interface PhaseLine {
  phase: string;
  awaiting: string;
  count: number;
  oldest_s: number;
}

export interface InFlight {
  task: number | string;
  rollout: number;
  attempt: number;
  agent: string;
  phase: string;
  awaiting: string;
  awaiting_s: number;
  age_s: number;
}

export interface TableColumns {
  rollouts: TableColumn[];
  tasks: TableColumn[];
}

export interface TableColumn {
  name: string;
  kind: "number" | "text" | "boolean";
  label: string;
  shown: boolean;
  sortable: boolean;
}

export interface RolloutTable {
  columns: TableColumn[];
  rows: TableRow[];
  offset: number;
  matches: number;
  total: number;
  absent: string[];
  base: Base;
  streaming: boolean;
}

export interface TableRow {
  row: number;
  task: number | string | null;
  rollout: number | null;
  cells: (number | boolean | string | null)[];
  marks: string[];
}

export interface TaskTable {
  columns: TableColumn[];
  rows: TaskRow[];
  offset: number;
  matches: number;
  total: number;
  absent: string[];
  base: Base;
}

export interface TaskRow {
  task: number | string;
  cells: (number | boolean | string | null)[];
  prompt: string;
  rewards: number[];
}

export interface Facets {
  facets: Facet[];
  base: Base;
}

export interface Facet {
  field: string;
  values: FacetValue[];
  others: number;
}

export interface FacetValue {
  name: string;
  count: number;
  query: string;
}

export interface Histograms {
  histograms: FieldHistogram[];
  base: Base;
}

export interface FieldHistogram {
  field: string;
  edges: number[];
  counts: number[];
  all_counts: number[];
  missing: number;
}

export interface SearchProgress {
  hits: SearchHit[];
  searched: number;
  candidates: number;
  done: boolean;
  limit_reached: boolean;
}

export interface SearchHit {
  row: number;
  task: number | string | null;
  rollout: number | null;
  before: string;
  match: string;
  after: string;
}

export interface TaskGroup {
  task: number | string;
  prompt: string;
  expected: string;
  members: GroupMember[];
  rollouts: number;
  solved: number;
  scored: number;
  mean: number | null;
  std: number | null;
  pass_rate: number | null;
  learnability: number | null;
  answers: AnswerCount[];
  difference: FirstDifference | null;
  previous: number | string | null;
  next: number | string | null;
  base: Base;
}

export interface GroupMember {
  row: number;
  rollout: number | null;
  outcome: string;
  reward: number | null;
  components: Record<string, number>;
  tokens_in: number | null;
  tokens_out: number | null;
  turns: number | null;
  answer: string;
  marks: string[];
}

export interface AnswerCount {
  answer: string;
  count: number;
  mean_reward: number | null;
  rollouts: number[];
}

export interface FirstDifference {
  item: number;
  variants: Variant[];
}

export interface Variant {
  name: string;
  count: number;
  mean_reward: number | null;
}

export interface RolloutPage {
  row: number | null;
  task: number | string | null;
  rollout: number | null;
  outcome: string;
  reward: number | null;
  agent: string;
  model: string;
  prompt_items: number;
  output_items: number;
  source: "scored" | "failed" | "inputs";
  truncated: boolean;
  bytes: number;
  file: string;
  line: number | null;
  attempts: number;
  has_tokens: boolean;
  marks: string[];
  previous: (number | boolean | string | null)[] | null;
  next: (number | boolean | string | null)[] | null;
}

export interface OutlinePage {
  items: OutlineItem[];
  start: number;
  total: number;
}

export interface OutlineItem {
  at: number;
  part: "prompt" | "output";
  kind: string;
  name: string;
  call_id: string;
  pair: number | null;
  unpaired: boolean;
  size: number;
  head: string;
  images: number;
  turn: number | null;
  json: boolean;
  found: Mark[];
}

export interface Mark {
  start: number;
  end: number;
  kind: "found here" | "earned by";
  field: string;
}

export interface ItemText {
  at: number;
  start: number;
  end: number;
  size: number;
  text: string;
  images: ImagePart[];
}

export interface ImagePart {
  part: number;
  type: "image/png" | "image/jpeg" | "image/gif" | "image/webp" | "";
  bytes: number;
  text: string;
}

export interface TranscriptHits {
  hits: TranscriptHit[];
  more: boolean;
}

export interface TranscriptHit {
  at: number;
  start: number;
  end: number;
  excerpt: string;
}

export interface RewardPanel {
  reward: number | null;
  components: ComponentValue[];
  fields: NamedText[];
  evaluations: JudgeEvaluation[];
  notes: string[];
  absent: string;
}

export interface ComponentValue {
  name: string;
  value: number | null;
  evidence: EvidenceSpan[];
}

export interface EvidenceSpan {
  at: number;
  start: number;
  end: number;
  text: string;
}

export interface JudgeEvaluation {
  question: string;
  answer: string;
  verdict: string;
  fields: NamedText[];
}

export interface RolloutAttempts {
  attempts: Attempt[];
  likely_cause: string;
  next_action: string;
}

export interface Attempt {
  number: number;
  failure_class: string;
  layer: string;
  cause: string;
  message: string;
  hint: string;
  hops: string[];
  body: string;
  judge_question: string;
  traceback: string;
  elapsed_s: number | null;
  kept: boolean;
  row: number | null;
}

export interface Times {
  spans: TimeSpan[];
  absent: string;
  source: string;
}

export interface TimeSpan {
  name: string;
  start_s: number;
  end_s: number;
  detail: string;
}

export interface TokenTurns {
  turns: TokenTurn[];
  findings: string[];
  absent: string;
  text: boolean;
}

export interface TokenTurn {
  turn: number;
  at: number | null;
  prompt_ids: number;
  generation_ids: number;
  ids_before: number;
  break_at: number | null;
  mean_log_prob: number | null;
  continuity: string;
  reason: string;
  findings: string[];
  weight_version: string;
}

export interface TokenRange {
  turn: number;
  start: number;
  total: number;
  prompt_ids: number;
  ids: (number | null)[];
  log_probs: (number | null)[];
  mask: number[];
  texts: string[];
}

export interface RawRange {
  text: string;
  start: number;
  end: number;
  size: number;
}

export interface Tree {
  path: string;
  entries: TreeEntry[];
  start: number;
  total: number;
}

export interface TreeEntry {
  key: string;
  path: string;
  kind: "object" | "array" | "text" | "number" | "boolean" | "null";
  size: number;
  text: string;
}

export interface RolloutCommands {
  commands: NamedText[];
  missing: string;
}

export interface Diff {
  a: RolloutPage;
  b: RolloutPage;
  runs: string[];
  expected: string[];
  items: DiffItem[];
  start: number;
  total: number;
  limit: number;
  first_token: TokenDifference | null;
}

export interface DiffItem {
  a: OutlineItem | null;
  b: OutlineItem | null;
  same: boolean;
  pieces: DiffPiece[];
  by_lines: boolean;
}

export interface DiffPiece {
  op: "-" | "+" | "=";
  text: string;
}

export interface TokenDifference {
  turn: number;
  position: number;
  a: number | null;
  b: number | null;
}

export interface FailureTree {
  nodes: FailureNode[];
  attempts: number;
  absent: string;
  findings: FindingLine[];
  consequences: string[];
}

export interface FailureNode {
  level: "class" | "layer" | "cause" | "message";
  name: string;
  attempts: number;
  rollouts: number;
  without_score: number;
  likely_cause: string;
  next_action: string;
  query: string;
  rows: FailureRow[];
  nodes: FailureNode[];
  others: number;
}

export interface FailureRow {
  task: number | string | null;
  rollout: number | null;
  attempt: number;
  row: number;
  kept: boolean;
}

export interface FindingLine {
  layer: string;
  cause: string;
  severity: "error" | "warning" | "note";
  symptom: string;
  likely_cause: string;
  next_action: string;
  evidence: NamedText[];
  task: number | string | null;
  rollout: number | null;
}

export interface ComparePage {
  a: SideCounts;
  b: SideCounts;
  tasks: number;
  better: number;
  worse: number;
  equal: number;
  unscored: number;
  metrics: MetricLine[];
  settings: string[];
  notices: string[];
  passed: boolean;
  verdict: string;
  command: string;
}

export interface SideCounts {
  run: RunLine;
  tasks: number;
  requested: number;
  scored: number;
  failures: Count[];
  unaccounted: number;
}

export interface MetricLine {
  name: string;
  tasks: number;
  a: number;
  b: number;
  difference: IntervalValue;
  p_value: number;
  p_adjusted: number;
  minimum_detectable: number | null;
}

export interface CompareTasks {
  tasks: ComparedTask[];
  offset: number;
  matches: number;
  total: number;
}

export interface ComparedTask {
  task: number | string;
  prompt: string;
  a: number | null;
  b: number | null;
  delta: number | null;
  a_rewards: number[];
  b_rewards: number[];
  a_rollouts: number[];
  b_rollouts: number[];
}

export interface SelectPage {
  verdicts: VerdictCount[];
  failures: Count[];
  rates: FigureBar[];
  tasks: SelectedTask[];
  offset: number;
  total: number;
  notices: string[];
  command: string;
  command_note: string;
}

export interface VerdictCount {
  name: string;
  count: number;
  borderline: number;
  more_rollouts: number;
  on_edge: number;
}

export interface SelectedTask {
  task: number | string;
  verdict: string;
  borderline: boolean;
  scored: number;
  requested: number;
  pass_rate: number | null;
  low: number | null;
  high: number | null;
  learnability: number | null;
  output_tokens: number | null;
  more_rollouts: number | null;
}

export interface ClusterPage {
  id: string;
  name: string;
  folder_name: string;
  output_dir: string;
  counts: Count[];
  rollouts: Count[];
  units: UnitLine[];
  problem: string;
  command: string;
  command_note: string;
  asked_at: number;
}

export interface UnitLine {
  name: string;
  label: string;
  seed: string;
  chunk: string;
  standing: string;
  tone: "good" | "bad" | "open";
  reason: string;
  job: string;
  job_id: string;
  restarts: number;
  expected: number | null;
  scored: number | null;
  failed: number | null;
  left: number | null;
  next: string;
  log: string[];
  run: string;
}

export interface About {
  files: FileLine[];
  manifest: string;
  settings: NamedText[];
  versions: NamedText[];
  index: NamedText[];
  bad_lines: UnreadableLine[];
  bad_lines_total: number;
}

export interface FileLine {
  role: string;
  path: string;
  bytes: number | null;
  modified_at: number | null;
}

export interface ReplyOf {
  session: ViewerSession;
  runs: RunList;
  liveRuns: RunList;
  run: RunPage;
  figures: RunFigures;
  live: Live;
  columns: TableColumns;
  rollouts: RolloutTable;
  tasks: TaskTable;
  facets: Facets;
  histograms: Histograms;
  search: SearchProgress;
  task: TaskGroup;
  rollout: RolloutPage;
  outline: OutlinePage;
  item: ItemText;
  image: Blob;
  findInTranscript: TranscriptHits;
  reward: RewardPanel;
  attempts: RolloutAttempts;
  times: Times;
  tokens: TokenTurns;
  tokenRange: TokenRange;
  raw: RawRange;
  download: Blob;
  tree: Tree;
  commands: RolloutCommands;
  diff: Diff;
  failures: FailureTree;
  compare: ComparePage;
  comparedTasks: CompareTasks;
  select: SelectPage;
  cluster: ClusterPage;
  about: About;
}

export const ENDPOINTS = {
  session: {
    path: "/api/session",
    parameters: [],
    streams: false,
  },
  runs: {
    path: "/api/runs",
    parameters: [],
    streams: false,
  },
  liveRuns: {
    path: "/api/live",
    parameters: [],
    streams: true,
  },
  run: {
    path: "/api/r/{run}",
    parameters: [],
    streams: false,
  },
  figures: {
    path: "/api/r/{run}/figures",
    parameters: [],
    streams: false,
  },
  live: {
    path: "/api/r/{run}/live",
    parameters: [],
    streams: true,
  },
  columns: {
    path: "/api/r/{run}/columns",
    parameters: [],
    streams: false,
  },
  rollouts: {
    path: "/api/r/{run}/rollouts",
    parameters: ["q", "sort", "offset", "limit", "columns"],
    streams: false,
  },
  tasks: {
    path: "/api/r/{run}/tasks",
    parameters: ["q", "sort", "offset", "limit", "columns"],
    streams: false,
  },
  facets: {
    path: "/api/r/{run}/facets",
    parameters: ["q", "of"],
    streams: false,
  },
  histograms: {
    path: "/api/r/{run}/histograms",
    parameters: ["q", "of", "fields"],
    streams: false,
  },
  search: {
    path: "/api/r/{run}/search",
    parameters: ["q"],
    streams: true,
  },
  task: {
    path: "/api/r/{run}/t/{task}",
    parameters: [],
    streams: false,
  },
  rollout: {
    path: "/api/r/{run}/t/{task}/{rollout}",
    parameters: ["row", "q", "sort"],
    streams: false,
  },
  outline: {
    path: "/api/r/{run}/t/{task}/{rollout}/outline",
    parameters: ["row", "start"],
    streams: false,
  },
  item: {
    path: "/api/r/{run}/t/{task}/{rollout}/item",
    parameters: ["row", "at", "start"],
    streams: false,
  },
  image: {
    path: "/api/r/{run}/t/{task}/{rollout}/image",
    parameters: ["row", "at", "part"],
    streams: false,
  },
  findInTranscript: {
    path: "/api/r/{run}/t/{task}/{rollout}/find",
    parameters: ["row", "text"],
    streams: false,
  },
  reward: {
    path: "/api/r/{run}/t/{task}/{rollout}/reward",
    parameters: ["row"],
    streams: false,
  },
  attempts: {
    path: "/api/r/{run}/t/{task}/{rollout}/attempts",
    parameters: [],
    streams: false,
  },
  times: {
    path: "/api/r/{run}/t/{task}/{rollout}/times",
    parameters: [],
    streams: false,
  },
  tokens: {
    path: "/api/r/{run}/t/{task}/{rollout}/tokens",
    parameters: ["row"],
    streams: false,
  },
  tokenRange: {
    path: "/api/r/{run}/t/{task}/{rollout}/tokens/{turn}",
    parameters: ["row", "start"],
    streams: false,
  },
  raw: {
    path: "/api/r/{run}/t/{task}/{rollout}/raw",
    parameters: ["row", "start"],
    streams: false,
  },
  download: {
    path: "/api/r/{run}/t/{task}/{rollout}/download",
    parameters: ["row"],
    streams: false,
  },
  tree: {
    path: "/api/r/{run}/t/{task}/{rollout}/tree",
    parameters: ["row", "path", "start"],
    streams: false,
  },
  commands: {
    path: "/api/r/{run}/t/{task}/{rollout}/commands",
    parameters: ["row"],
    streams: false,
  },
  diff: {
    path: "/api/diff",
    parameters: ["a", "b", "start"],
    streams: false,
  },
  failures: {
    path: "/api/r/{run}/failures",
    parameters: [],
    streams: false,
  },
  compare: {
    path: "/api/c/{a}/{b}",
    parameters: ["unmatched", "different_rows"],
    streams: false,
  },
  comparedTasks: {
    path: "/api/c/{a}/{b}/tasks",
    parameters: ["q", "sort", "offset", "limit", "unmatched", "different_rows"],
    streams: false,
  },
  select: {
    path: "/api/r/{run}/select",
    parameters: ["low", "high", "min_rollouts", "max_tokens", "solved_at", "learnability", "decided_only", "limit", "offset"],
    streams: false,
  },
  cluster: {
    path: "/api/k/{cluster}",
    parameters: [],
    streams: false,
  },
  about: {
    path: "/api/r/{run}/about",
    parameters: [],
    streams: false,
  },
} as const;
