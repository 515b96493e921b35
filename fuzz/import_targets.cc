// The importers of foreign traces: whatever the bytes are, the result is a trace file that its own
// reader takes whole.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "ingest/builtin.h"
#include "targets.h"
#include "trace/reader.h"

namespace forebay::fuzz {
namespace {

void import(const ingest::Importer& importer, std::span<const std::byte> bytes,
            const std::string& path) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  importer.recognises(text, path);
  std::vector<std::byte> file;
  trace::TraceWriter writer(
      [&](std::span<const std::byte> more) -> Status {
        file.insert(file.end(), more.begin(), more.end());
        return {};
      },
      {.compression_level = 0});
  const auto stream = ingest::open_memory_stream(bytes);
  const ingest::Source source{.path = path, .bytes = stream.get(), .host = "host"};
  ingest::Account account;
  const Status read = importer.read(source, writer, account);
  FB_CHECK(read.ok());  // damage is counted; only disks can fail
  FB_CHECK(writer.finish().ok());
  const uint64_t events = writer.event_count();
  const auto reader = trace::TraceReader::open(
      [&](std::span<std::byte> out, uint64_t offset) {
        const size_t at = std::min<size_t>(offset, file.size());
        const size_t size = std::min(out.size(), file.size() - at);
        if (size > 0) std::memcpy(out.data(), file.data() + at, size);
        return static_cast<int64_t>(size);
      },
      "input");
  FB_CHECK(reader.ok());
  uint64_t found = 0;
  while (true) {
    const auto block = (*reader)->next();
    FB_CHECK(block.ok());
    if (!block->has_value()) break;
    found += (*block)->size();
  }
  FB_CHECK((*reader)->is_finished() && !(*reader)->damage());
  FB_CHECK(found == events);
}

}  // namespace

void fuzz_darshan(std::span<const std::byte> bytes) {
  import(ingest::kDarshan, bytes, "posix.txt");
  import(ingest::kDarshanDxt, bytes, "dxt.txt");
}
void fuzz_dftracer(std::span<const std::byte> bytes) {
  import(ingest::kDftracer, bytes, "trace.pfw");
}
void fuzz_kineto(std::span<const std::byte> bytes) {
  import(ingest::kKineto, bytes, "rank_3.json");
}
void fuzz_nvidia_smi(std::span<const std::byte> bytes) {
  import(ingest::kNvidiaSmi, bytes, "dmon.txt");
}
void fuzz_perf(std::span<const std::byte> bytes) {
  import(ingest::kPerfScript, bytes, "perf.txt");
}
// The first byte chooses the table.
void fuzz_sofa(std::span<const std::byte> bytes) {
  constexpr std::array<const char*, 7> kTables{"cputrace.csv", "gputrace.csv", "strace.csv",
                                               "nettrace.csv", "netstat.csv",  "nvsmi_trace.csv",
                                               "mpstat.csv"};
  if (bytes.empty()) return;
  import(ingest::kSofa, bytes.subspan(1),
         std::string("sofalog/") + kTables[static_cast<size_t>(bytes[0]) % kTables.size()]);
}
void fuzz_strace(std::span<const std::byte> bytes) {
  import(ingest::kStrace, bytes, "strace.out.4711");
}

}  // namespace forebay::fuzz
