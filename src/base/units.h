// Numbers as people write them: "1.5 GiB", "20ms", "12.4 GB/s".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "forebay/result.h"

namespace forebay::base {

// 1000-based, three significant digits: "24.6 GB", "512 B".
std::string format_bytes(double bytes);
std::string format_bytes_per_second(double bytes_per_second);
// 1024-based, for memory: "181 MiB".
std::string format_memory(double bytes);
// "31.0 ms", "1.90 s", "2 min 05 s".
std::string format_seconds(double seconds);
// 1234567 -> "1 234 567".
std::string format_count(uint64_t count);
// (2, "reads") -> "2 reads", (1, "reads") -> "1 read"; also "processes", "batches", "entries".
std::string format_counted(uint64_t count, std::string_view plural);

// "4096", "64KiB", "1.5 GB", "2M" (M = MB). Unknown units and negative sizes are errors.
Result<uint64_t> parse_bytes(std::string_view text);
// The same, and "200 MB/s".
Result<uint64_t> parse_bytes_per_second(std::string_view text);
// Nanoseconds from "20ms", "1.5s", "300us", "2min"; a bare number means seconds.
Result<int64_t> parse_duration_ns(std::string_view text);
// "50%", "0.5" -> 0.5
Result<double> parse_fraction(std::string_view text);
// The whole text as a number, or an error naming it.
Result<double> parse_double(std::string_view text);
Result<int64_t> parse_int(std::string_view text);

}  // namespace forebay::base
