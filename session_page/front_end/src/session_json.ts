// Generated from docs/session-json.md by build.mjs; do not edit.

export interface SessionDocument {
  schema: "session/1";
  session: SessionHead;
  branches: BranchEntry[];
  statements: StatementEntry[];
  executions: ExecutionEntry[];
  files: FileEntry[];
  conversation: ItemEntry[];
  requests: RequestEntry[];
  calls: CallEntry[];
  messages: MessageEntry[];
  handles: HandleEntry[];
  questions: QuestionEntry[];
  moves: MoveEntry[];
  notes: NoteEntry[];
  contents: { [digest: string]: Content };
}

export interface Text {
  text: string;
  digest?: string;
  size?: number;
}

export interface PictureEntry {
  name: string;
  media_type?: string;
  digest?: string;
  width?: number;
  height?: number;
  size?: number;
  problem?: string;
}

export interface SpentEntry {
  calls?: number;
  input_tokens?: number;
  cached_tokens?: number;
  output_tokens?: number;
  dollars?: number;
  unpriced?: number;
}

export interface SessionHead {
  session_id: string;
  cwd?: string;
  directories?: string[];
  title?: string;
  client?: string;
  confined?: boolean;
  python?: string;
  opened_at?: number;
  changed_at?: number;
  events?: number;
  branch?: string;
  is_running?: boolean;
  mode?: string;
  options?: { [key: string]: string };
  plan?: PlanEntry[];
  spent?: SpentEntry;
  models?: { [key: string]: SpentEntry };
}

export interface BranchEntry {
  key: string;
  parent?: string;
  before?: number;
  shared?: number;
  last?: number;
  is_active?: boolean;
}

export interface StatementEntry {
  key: number;
  statement_id: string;
  index: number;
  branch: string;
  at: number;
  source: Text;
  kind?: "python" | "meta";
  by: "model" | "user" | "outside" | "session";
  call?: string;
  tags?: string[];
  is_withheld?: boolean;
  omitted?: { [key: string]: boolean };
  executions?: number[];
  before?: number[];
  after?: number[];
}

export interface OutputEntry {
  text: Text;
  bytes?: number;
  is_cut?: boolean;
}

export interface ErrorEntry {
  type: string;
  message: Text;
  traceback?: Text;
}

export interface NameEntry {
  name: string;
  change: "added" | "changed" | "deleted" | "unknown";
  type?: string;
  value?: string;
  before_type?: string;
  before?: string;
  mutated?: boolean;
  reason?: string;
}

export interface RenderEntry {
  handle: string;
  title: string;
  text: Text;
  tokens: number;
  budget?: number;
  level?: number;
  first_line?: number;
  last_line?: number;
  lines?: number;
  state?: string;
  reason?: string;
  follows?: string;
  revision?: string;
}

export interface EffectEntry {
  ordinal: number;
  operation: string;
  call?: string;
  error?: ErrorEntry;
}

export interface CommandEntry {
  call: string;
  command: Text;
  cwd: string;
  code?: number;
  signal?: number;
  timed_out?: boolean;
  reason?: string;
  time_ms?: number;
  output?: OutputEntry;
  errors?: OutputEntry;
}

export interface DivergenceEntry {
  aspect: string;
  before: string;
  after: string;
  against: string;
  text: string;
}

export interface ExecutionEntry {
  key: number;
  execution_id: string;
  statement: number;
  branch: string;
  status: "ok" | "error" | "timeout" | "cancelled" | "running";
  started_at: number;
  ended_at?: number;
  time_ms?: number;
  mode?: "recorded" | "live" | "dry";
  against?: string;
  counts?: boolean;
  answered?: boolean;
  round?: number;
  value?: Text;
  markdown?: Text;
  pictures?: PictureEntry[];
  error?: ErrorEntry;
  stdout?: OutputEntry;
  stderr?: OutputEntry;
  renders?: RenderEntry[];
  names?: NameEntry[];
  effects?: EffectEntry[];
  commands?: CommandEntry[];
  files?: string[];
  divergences?: DivergenceEntry[];
  checkpoint?: boolean;
}

export interface RegionEntry {
  line: number;
  new: Text;
  old?: Text;
  more_added?: number;
  more_removed?: number;
}

export interface FileChangeEntry {
  key: string;
  at: number;
  branch: string;
  by: "statement" | "rewind" | "others";
  change: "created" | "modified" | "deleted" | "moved";
  statement?: number;
  execution?: number;
  call?: string;
  before?: string;
  after?: string;
  before_hash?: string;
  after_hash?: string;
  before_mode?: number;
  after_mode?: number;
  regions?: RegionEntry[];
  note?: string;
  is_noticed?: boolean;
  unsure?: string;
  moved_from?: string;
  is_withheld?: boolean;
  text?: Text;
}

export interface FileEntry {
  key: string;
  name: string;
  changes?: FileChangeEntry[];
}

export interface AttachmentEntry {
  uri: string;
  name: string;
  media_type?: string;
  text?: Text;
  picture?: PictureEntry;
}

export interface ItemEntry {
  key: number;
  event: string;
  at: number;
  branch: string;
  type: "user" | "reply" | "reasoning" | "call" | "result" | "rerender" | "stop" | "summary" | "queued" | "withdrawn";
  text?: Text;
  message?: string;
  kind?: string;
  is_aside?: boolean;
  expansion?: Text;
  attachments?: AttachmentEntry[];
  response?: string;
  call?: string;
  tool?: string;
  title?: string;
  arguments?: Text;
  parent?: string;
  is_typed?: boolean;
  is_refused?: boolean;
  status?: string;
  cause?: string;
  pictures?: PictureEntry[];
  forgotten?: number;
}

export interface MessageEntry {
  key: number;
  event: string;
  role: string;
  text: Text;
  is_shortened?: boolean;
  problem?: string;
}

export interface HandleTokens {
  handle: string;
  tokens: number;
  name?: string;
  title?: string;
}

export interface CallEntry {
  key: number;
  position: number;
  branch: string;
  at: number;
  round: number;
  used: number;
  size: number;
  shared?: number;
  sections?: { [key: string]: number };
  handles?: HandleTokens[];
  calls_tools?: boolean;
  instructions?: string;
  tail?: string;
  kept?: number;
  messages?: number[];
  ended_at?: number;
  answered?: boolean;
  model?: string;
  input_tokens?: number;
  cached_tokens?: number;
  output_tokens?: number;
  dollars?: number;
}

export interface HandleChange {
  seq: number;
  at: number;
  type: "method" | "tick" | "change";
  text: Text;
}

export interface HandleEntry {
  key: number;
  handle: string;
  type: string;
  branch: string;
  at: number;
  statement: number;
  line?: number;
  name?: string;
  title?: string;
  level?: number;
  budget?: number;
  tokens?: number;
  follows?: string;
  revision?: string;
  state?: string;
  shown_at?: number;
  unread?: number;
  changes?: HandleChange[];
}

export interface StepCall {
  call: number;
  result?: number;
}

export interface StepGroup {
  type: string;
  calls?: StepCall[];
}

export interface StepEntry {
  type: "non-steer" | "steer" | "ai-block";
  message?: number;
  text?: number;
  statements?: StepCall[];
  groups?: StepGroup[];
}

export interface RoundEntry {
  round: number;
  response?: string;
  input?: number[];
  output?: number[];
}

export interface RequestEntry {
  key: string;
  branch: string;
  number: number;
  root: number;
  kind: string;
  steps?: StepEntry[];
  rounds?: RoundEntry[];
  unread?: number[];
  late?: number[];
  stop?: number;
}

export interface QuestionEntry {
  key: number;
  call: string;
  scope: string;
  branch: string;
  at: number;
  outcome?: string;
  answered_at?: number;
  is_remembered?: boolean;
  rest?: boolean;
}

export interface RestoredFile {
  path: string;
  name: string;
  reason?: string;
}

export interface MoveEntry {
  key: number;
  type: "branch" | "switch" | "rewind" | "replay" | "edit";
  branch: string;
  at: number;
  ended_at?: number;
  origin?: string;
  to?: string;
  before?: number;
  statement?: number;
  restored?: RestoredFile[];
  left?: RestoredFile[];
  is_cancelled?: boolean;
  is_undo?: boolean;
  is_redo?: boolean;
  first?: number;
  last?: number;
  mode?: "recorded" | "live" | "dry";
  outcome?: "completed" | "failed" | "cancelled" | "interrupted";
  detail?: string;
}

export interface NoteEntry {
  key: number;
  kind: string;
  branch: string;
  at: number;
  fields?: { [key: string]: unknown };
}

export interface Content {
  text?: string;
  data?: string;
  media_type?: string;
  left_out?: string;
}

export interface NameDifference {
  name: string;
  left: string | null;
  right: string | null;
}

export interface FileDifference {
  path: string;
  name: string;
  left: string | null;
  right: string | null;
}

export interface Comparison {
  left: string;
  right: string;
  shared: number;
  left_statements: number[];
  right_statements: number[];
  names: NameDifference[];
  files: FileDifference[];
}

export interface PlanEntry {
  content: string;
  priority?: "high" | "medium" | "low";
  status?: "pending" | "in_progress" | "completed";
}
