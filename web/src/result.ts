// What `forebay run` writes: docs/formats/result.md. Only what the page reads.

export interface Spread {
  mean: number | null;
  stdev: number | null;
  n: number;
  reason?: string;
}
export type Times = Record<string, number>;
export interface Latency {
  count: number;
  mean?: number;
  min?: number;
  max?: number;
  p50?: number;
  p99?: number;
  buckets_low_high_count?: [number, number, number][];
}
export interface Epoch {
  epoch: number;
  phase: string;
  is_complete: boolean;
  start_seconds: number;
  end_seconds: number;
  steps: number;
  samples: number;
  skipped_samples: number;
  file_bytes: number;
  au: number | null;
  samples_per_second: number | null;
  file_bytes_per_second: number | null;
  dlio_au: number | null;
  time_seconds: Times;
  cached_share: number | null;
  cpu_seconds_per_gb: number | null;
  read_latency: Latency;
  accelerators: {
    time_seconds: Times;
    blocks: {
      start_seconds: number;
      end_seconds: number;
      load_seconds: number[];
      compute_seconds: number[];
      step_seconds: Record<string, number[]>;
    }[];
  }[];
}
export interface HostRow {
  name: string;
  kernel: string;
  cpu_model: string;
  cpu_count: number;
  memory_bytes: number;
  memory_limit_bytes: number;
  processes: number[];
  accelerators: number;
  cpu_seconds: number;
  peak_resident_bytes: number;
  file_bytes: number;
  device_bytes: number | null;
  cached_share: number | null;
  network_received_bytes: number | null;
  network_sent_bytes: number | null;
  clock_offset_seconds: number;
  clock_uncertainty_seconds: number;
}
export interface RunResult {
  schema_version: number;
  forebay_version: string;
  command: string;
  started_at: string;
  ended_at: string;
  is_interrupted: boolean;
  error: string | null;
  verdict: {
    outcome: string;
    au: number | null;
    au_needed: number;
    reason: string;
    limited_by: string;
    limit_evidence: string;
    accelerators_fed: number | null;
    accelerators_fed_is_lower_bound: boolean;
  };
  rules?: { outcome: string; findings: { rule: string; text: string }[]; notes: string[] };
  summary: Record<string, unknown> & {
    au: Spread;
    samples_per_second: Spread;
    file_bytes_per_second: Spread;
    payload_bytes_per_second: Spread;
    dlio_au: Spread;
    dlio_samples_per_second: Spread;
    checkpoint_seconds: Spread;
    time_seconds: Times;
    cached_share: number | null;
    wall_seconds: number;
    start_to_first_batch_seconds: number;
    cpu_seconds: number;
    cpu_seconds_per_gb: number | null;
    peak_resident_bytes: number;
    open_files_max: number;
    threads_max: number;
    read_latency: Latency;
  };
  workload_name: string;
  seed: number;
  options: Record<string, unknown>;
  dataset: Record<string, unknown>;
  steps_per_epoch: number;
  samples_left_out_per_epoch: number;
  warnings: string[];
  read_retries: number;
  bad_record_count: number;
  bad_records: { path: string; cause: string }[];
  checkpoints: {
    epoch: number;
    step: number;
    bytes: number;
    seconds: number;
    is_synced: boolean;
    path: string;
  }[];
  epochs: Epoch[];
  host: Record<string, unknown>;
  hosts: HostRow[];
  workload: Record<string, { value: string; unit: string; origin: string }>;
}
