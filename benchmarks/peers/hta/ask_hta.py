"""HTA's answers about one trace, as one line of JSON: run by HTA's own Python, one process a trace.

  ask_hta.py TRACE      temporal breakdown, idle time breakdown, communication overlap
"""

import importlib.metadata
import json
import logging
import sys
import warnings

logging.disable(logging.CRITICAL)
warnings.filterwarnings("ignore")

from hta.trace_analysis import TraceAnalysis  # noqa: E402: after its warnings are switched off

# By default HTA leaves the last step of the profiler out; what is compared is the whole trace.
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="",
                         include_last_profiler_step=True)
breakdown = analysis.get_temporal_breakdown(visualize=False).iloc[0]
idle = analysis.get_idle_time_breakdown(visualize=False)[0]
overlap = analysis.get_comm_comp_overlap(visualize=False).iloc[0]["comp_comm_overlap_pctg"]
waits = idle.groupby("idle_category")["idle_time"].sum()
print(json.dumps({
    "version": importlib.metadata.version("HolisticTraceAnalysis"),
    "pandas": importlib.metadata.version("pandas"),
    "compute_us": float(breakdown["compute_time(us)"]),
    "non_compute_us": float(breakdown["non_compute_time(us)"]),
    "idle_us": float(breakdown["idle_time(us)"]),
    "host_wait_us": float(waits.get("host_wait", 0)),
    "kernel_wait_us": float(waits.get("kernel_wait", 0)),
    "other_us": float(waits.get("other", 0)),
    "overlap_percent": None if overlap != overlap else float(overlap),
}))
