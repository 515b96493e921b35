// What `forebay explain --json` prints: docs/formats/explanation.md.

export const kParts = [
  'compute',
  'fetch_stall',
  'prep_stall',
  'sync_stall',
  'copy',
  'checkpoint',
  'idle',
  'other',
] as const;
export type Part = (typeof kParts)[number];
export type Breakdown = Record<Part | 'total', number>;

/** "fetch_stall" -> "fetch stall"; names of anything else stay as they are. */
export function partName(part: string): string {
  return (kParts as readonly string[]).includes(part) ? part.replace(/_/g, ' ') : part;
}

export interface Cause {
  part: string;
  what: string;
  ns: number;
}
export interface Iteration {
  number: number;
  begin_ns: number;
  end_ns: number;
  parts: Breakdown;
  is_partial: boolean;
  is_epoch_start: boolean;
  has_checkpoint: boolean;
  is_slow: boolean;
}
export interface Driver {
  track: number;
  name: string;
  is_device: boolean;
  rank: number;
  begin_ns: number;
  end_ns: number;
  whole: Breakdown;
  steps: Breakdown;
  causes: Cause[];
  iterations: Iteration[];
}
export interface Shares {
  user: number;
  system: number;
  gpu: number;
  io_wait: number;
  idle: number;
}
export interface Swarm {
  id: string;
  kind: string;
  symbol: string;
  module: string;
  path: string;
  source: string;
  samples: number;
  self_ns: number;
  share: number;
  main_track: string;
  over_time_ns: number[];
}
export interface Change {
  what: string;
  id: string;
  module: string;
  path: string;
  before_ns: number;
  after_ns: number;
  difference_ns: number;
  before_n: number;
  after_n: number;
  p: number | null;
  is_significant: boolean;
}
export interface IoUse {
  name: string;
  files: number;
  opens: number;
  reads: number;
  writes: number;
  metadata: number;
  syncs: number;
  faults: number;
  errors: number;
  read_bytes: number;
  written_bytes: number;
  cache_bytes: number | null;
  cache_known_bytes: number;
  read_ns: number;
  write_ns: number;
  metadata_ns: number;
  sync_ns: number;
  fault_ns: number;
  total_ns: number;
  metadata_share: number;
  sequential_share: number | null;
  read_p50_ns: number | null;
  read_p99_ns: number | null;
  read_max_ns: number | null;
  read_bytes_p50: number | null;
}
export interface Disk {
  name: string;
  requests: number;
  bytes: number;
  read_share: number | null;
  device_p50_ns: number | null;
  device_p99_ns: number | null;
  device_max_ns: number | null;
  queue_mean_ns: number | null;
  busy_share: number | null;
  busy_share_in_stalls: number | null;
  bytes_per_second: number | null;
  depth: number | null;
}
export interface Accelerator {
  name: string;
  rank: number;
  span_ns: number;
  compute_ns: number;
  non_compute_ns: number;
  idle_ns: number;
  idle_host_wait_ns: number;
  idle_kernel_wait_ns: number;
  idle_other_ns: number;
  communication_ns: number;
  copy_ns: number;
  communication_overlap: number | null;
  copy_overlap: number | null;
  copied_bytes: number;
  kernels: number;
  launches: number;
  busy_share_counter: number | null;
}
export interface Rank {
  rank: number;
  name: string;
  clock_shift_ns: number;
  clock_residual_ns: number | null;
  mean_step_ns: number | null;
  own_work_ns: number | null;
  lateness_ns: number | null;
  last_share: number | null;
  is_straggler: boolean;
}
export interface Advice {
  id: string;
  title: string;
  state: 'applies' | 'not needed' | 'no evidence';
  is_warning: boolean;
  needs: string;
  evidence: string;
  threshold: string;
  threshold_source: string;
  remedies: string[];
  gain_formula: string;
  gain_ns_per_step: number;
  gain_ns: number;
  gain_share: number;
}
/** The first driver's steps go over to another length. Positions count from 1. */
export interface PaceChange {
  first_step: number;
  at_ns: number;
  before_n: number;
  after_n: number;
  before_ns: number;
  after_ns: number;
  part: string;
  part_ns: number;
  p: number;
}
/** A stretch of the first driver's steps that are longer than the others. */
export interface SlowPhase {
  first_step: number;
  last_step: number;
  begin_ns: number;
  end_ns: number;
  n: number;
  ns: number;
  ordinary_ns: number;
  factor: number;
  part: string;
  part_ns: number;
  p: number;
}
/** A call that had not returned when the recording, or its process, ended. */
export interface OpenCall {
  what: string;
  thread: string;
  begin_ns: number;
  ns: number;
  is_of_driver: boolean;
}
export interface Explanation {
  schema_version: number;
  headline: string;
  recording: {
    paths: string[];
    source: string;
    command: string;
    host: string;
    exit: string;
    duration_ns: number;
    begin_unix_ns: number | null;
    events: number;
    tracks: number;
    dropped: number;
    is_whole: boolean;
    overhead_outside_ns: number | null;
    overhead_inside_ns: number | null;
    facts: Record<string, string>;
  };
  iterations: {
    is_found: boolean;
    method: string;
    reason: string;
    confidence: number | null;
    coverage: number;
    regularity: number;
    cv: number;
    count: number;
    partial: number;
    mean_ns: number;
    p50_ns: number;
    p90_ns: number;
    p99_ns: number;
    max_ns: number;
    error_against_marks: number | null;
    count_without_marks: number | null;
  };
  drivers: Driver[];
  whole: Breakdown;
  steps: Breakdown;
  causes: Cause[];
  slow: {
    kind: string;
    count: number;
    mean_ns: number;
    ordinary_ns: number;
    excess_ns: number;
    excess: Breakdown;
    explanation: string;
    every: number | null;
  }[];
  pace: PaceChange | null;
  phases: SlowPhase[];
  under_way: {
    count: number;
    calls: OpenCall[];
    hang: string | null;
  };
  concurrency: {
    is_measured: boolean;
    reason: string;
    window_ns: number;
    windows: number;
    cores: number;
    is_of_host: boolean;
    by_busiest: Shares;
    by_mean: Shares;
  };
  swarms: Swarm[];
  swarms_reason: string | null;
  comparison:
    | null
    | { against: string; unit: string; notes: string[]; rows: Change[]; functions: Change[] };
  io: {
    is_measured: boolean;
    reason: string;
    total: IoUse;
    files: IoUse[];
    folders: IoUse[];
    formats: IoUse[];
    files_left_out: number;
    folders_left_out: number;
    read_sizes: Record<string, number>;
    counted_only: number;
  };
  disks: Disk[];
  read_latency: {
    is_measured: boolean;
    reason: string;
    reads: number;
    cpu_ns: number;
    device_ns: number;
    queue_ns: number;
    other_ns: number;
  };
  accelerators: Accelerator[];
  alignment: {
    method: string;
    reason: string;
    matched: number;
    residual_ns: number | null;
    ranks: Rank[];
  };
  advice: Advice[];
  warnings: string[];
}

/** The breakdown that is shown: of complete iterations where there are any. */
export function shownBreakdown(explanation: Explanation): Breakdown {
  return explanation.iterations.is_found ? explanation.steps : explanation.whole;
}
