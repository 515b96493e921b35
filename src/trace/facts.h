// What is known about a recording as a whole: keys of the facts in a trace file, all values text.
// Writers may add others; `explain` shows those it does not know as they are.
#pragma once

#include <string_view>

namespace forebay::trace::fact {

inline constexpr std::string_view kSource = "source";    // "record", "run", "import kineto", ...
inline constexpr std::string_view kVersion = "version";  // of the tool that wrote the file
inline constexpr std::string_view kHost = "host";        // its name
inline constexpr std::string_view kCommand = "command";  // what was observed, as typed
inline constexpr std::string_view kRank = "rank";        // of the observed process, decimal
inline constexpr std::string_view kWorldSize = "world_size";
inline constexpr std::string_view kCores = "cores";  // that the observed program may use
inline constexpr std::string_view kExit = "exit";    // "exit 0", "signal 9", "running"
// Nanoseconds from the program's release to the recording's end; events of the host may lie
// outside.
inline constexpr std::string_view kRecorded = "recorded_ns";
inline constexpr std::string_view kDropped =
    "dropped";  // events lost, decimal; absent = none can be
inline constexpr std::string_view kEventsSeen = "events_seen";  // before thinning, decimal
// CPU nanoseconds that the recording itself took, outside and inside the observed program.
inline constexpr std::string_view kOverheadOutside = "overhead_outside_ns";
inline constexpr std::string_view kOverheadInside = "overhead_inside_ns";
// One each: "collector.io" = "ebpf", "interposer" or why there is none; "missing.io" = what this
// way of observing cannot see.
inline constexpr std::string_view kCollectorPrefix = "collector.";
inline constexpr std::string_view kMissingPrefix = "missing.";
inline constexpr std::string_view kWarningPrefix = "warning.";  // "warning.1" = text for people
// The disk was full before the program's end, or the like: what is missing, and why.
inline constexpr std::string_view kCutShort = "warning.cut_short";

}  // namespace forebay::trace::fact
