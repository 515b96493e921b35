#include "emulate/inspection.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "dataset/index.h"
#include "dataset/order.h"
#include "emulate/data_store.h"
#include "loader/engine.h"
#include "storage/place.h"
#include "storage/store.h"
#include "sys/host.h"

namespace forebay::emulate {
namespace {

constexpr size_t kNamedMax = 100;

// Files that nobody can use, as they are named among the bad.
std::vector<std::string> bad_files(const dataset::IndexSummary& summary) {
  std::vector<std::string> named;
  for (const storage::Skipped& bad : summary.bad_files)
    named.push_back(bad.reason.starts_with(bad.path) ? bad.reason : bad.path + ": " + bad.reason);
  return named;
}

std::string shape_text(const ops::Sample& sample) {
  std::string text(formats::element_name(sample.type));
  for (size_t i = 0; i < sample.shape.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? " " : " x ", sample.shape[i]);
  return text;
}

// The folder `path`, or the folder of the file `path` with the file's name in `only_file`: a single
// file is a data set of one.
Result<std::unique_ptr<storage::Store>> open_place(const std::string& path,
                                                   std::string& only_file) {
  auto folder = storage::open_store("local", path);
  if (!folder.ok() && is_object_place(path)) return folder;
  const auto listing = folder.ok() ? (*folder)->list("") : Error(folder.error());
  // A prefix that no key begins with is a folder without files, or the name of one object.
  const bool is_empty_prefix = is_object_place(path) && listing.ok() && listing->files.empty();
  if (listing.ok() && !is_empty_prefix) return folder;
  const size_t slash = path.find_last_of('/');
  const std::string above = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  auto parent = storage::open_store("local", above);
  if (!parent.ok() || name.empty() || !(*parent)->stat(name).ok()) {
    if (!folder.ok() || listing.ok()) return folder;
    return Error(listing.error());
  }
  only_file = name;
  return parent;
}

// A block's extents, one after the other.
Status read_block(storage::Store& store, std::string_view path, const formats::Block& block,
                  std::span<std::byte> out) {
  for (const formats::Extent& extent : block.extents) {
    const size_t got = FB_TRY(store.read_at(path, extent.offset, out.first(extent.length)));
    if (got < extent.length)
      return fail(ErrorCode::kCorruption, "{}: truncated at byte {}", path, extent.offset + got);
    out = out.subspan(extent.length);
  }
  return {};
}

Result<std::string> describe_first(storage::Store& store, const dataset::Index& index,
                                   const formats::FormatOptions& options) {
  const dataset::SampleLocation where = index.locate(0);
  const std::string_view path = index.path(where.file);
  const uint64_t bytes_max = sys::host().memory_limit_bytes / 4;
  if (where.extent.length > bytes_max)
    return fail(ErrorCode::kUnsupported, "{}: {} in one piece is more than memory allows ({})",
                path, base::format_bytes(static_cast<double>(where.extent.length)),
                base::format_bytes(static_cast<double>(bytes_max)));
  const formats::FileIndex& layout = index.file_index(where.file);
  const bool has_blocks = where.access == formats::Access::kBlocks;
  std::vector<std::byte> bytes(where.extent.length);
  if (has_blocks)
    FB_TRY(read_block(store, path, layout.blocks[where.block], bytes));
  else
    FB_TRY(store.read_at(path, where.extent.offset, bytes));
  const auto reader = index.format().make_reader(options);
  std::shared_ptr<const formats::DecodedBlock> block;
  if (has_blocks)
    block = FB_TRY(reader->decode_block(path, bytes, layout, layout.blocks[where.block]));
  const formats::Record record =
      FB_TRY(block ? block->at(where.sample_in_block)
                   : reader->read(path, bytes, layout, where.sample_in_file));
  const auto decoder = ops::make_decoder({});
  const ops::Sample sample = FB_TRY(decoder->decode(path, record, {}));
  return shape_text(sample);
}

// Reads everything through the loader, so that what is checked is what a run would meet.
Status check_all(storage::Store& store, const dataset::Index& index,
                 const formats::FormatOptions& format, int threads, Inspection& inspection,
                 const std::function<void(uint64_t, uint64_t)>& progress, std::stop_token stop) {
  constexpr uint64_t kBatch = 16;
  dataset::OrderOptions order_options;
  order_options.sample_count = index.sample_count();
  const dataset::Order order = FB_TRY(dataset::Order::make(order_options));
  loader::EngineOptions options;
  options.batch_size = std::min<uint64_t>(kBatch, index.sample_count());
  options.tail = loader::Tail::kAll;
  options.fetch_depth = std::max(4, threads * 2);
  options.decode_threads = threads;
  options.on_error = loader::OnError::kSkip;
  options.format = format;
  options.name = "inspect";
  auto engine = FB_TRY(loader::Engine::open(store, index, order, options, nullptr));
  engine->begin_epoch(0, 0, UINT64_MAX);
  const int64_t start = base::monotonic_clock().now_ns();
  for (;;) {
    std::optional<loader::Batch> batch = FB_TRY(engine->next(stop));
    if (!batch) break;
    inspection.checked_samples += batch->samples().size();
    inspection.checked_bytes += batch->payload_bytes();
    progress(inspection.checked_samples, index.sample_count());
  }
  inspection.check_seconds = static_cast<double>(base::monotonic_clock().now_ns() - start) * 1e-9;
  inspection.is_checked = true;
  const loader::EngineStats stats = engine->stats();
  inspection.bad_count = stats.bad_count + index.summary().bad_file_count;
  inspection.problem_count += stats.bad_count;
  for (const loader::BadRecord& bad : stats.bad_records) {
    if (inspection.bad.size() < kNamedMax) inspection.bad.push_back(bad.cause);
    if (inspection.problems.size() < kNamedMax)
      inspection.problems.emplace_back(bad.path, bad.cause);
  }
  return {};
}

}  // namespace

Result<Inspection> inspect(const std::string& place, const InspectionOptions& options,
                           const std::function<void(uint64_t done, uint64_t total)>& progress,
                           std::stop_token stop) {
  const std::string path = FB_TRY(storage::normal_place(place));
  dataset::IndexOptions index_options;
  const std::unique_ptr<storage::Store> store = FB_TRY(open_place(path, index_options.only_file));
  if (!options.format.empty()) {
    index_options.format = formats::find_format(options.format);
    if (index_options.format == nullptr)
      return fail(ErrorCode::kInvalidArgument, "no format named '{}'", options.format);
  }
  index_options.samples_per_file = options.samples_per_file;
  index_options.record_bytes = options.record_bytes;
  index_options.skip_bad_files = true;
  index_options.stop = stop;
  const std::unique_ptr<dataset::Index> index = FB_TRY(dataset::Index::open(*store, index_options));
  const formats::FormatOptions format{options.samples_per_file, options.record_bytes};
  Inspection inspection;
  inspection.path = path;
  inspection.format = index->format().name;
  inspection.files = index->file_count();
  inspection.samples = index->sample_count();
  inspection.bytes = index->summary().bytes;
  inspection.problem_count = index->summary().problem_count;
  for (const storage::Skipped& problem : index->summary().problems)
    inspection.problems.emplace_back(problem.path, problem.reason);
  for (uint32_t file = 0; file < index->file_count(); ++file)
    inspection.file_bytes.record(index->file_bytes(file));
  inspection.bad = bad_files(index->summary());
  inspection.bad_count = index->summary().bad_file_count;
  const Result<std::string> first = describe_first(*store, *index, format);
  if (first.ok()) inspection.first_sample = *first;
  if (!first.ok() && !options.check_all) {  // a check will come across it
    inspection.bad.push_back(first.error().message);
    inspection.problems.emplace_back(path, first.error().message);
    ++inspection.bad_count;
    ++inspection.problem_count;
  }
  if (options.check_all) {
    const int threads = options.threads > 0 ? options.threads : sys::usable_cpu_count();
    FB_TRY(check_all(*store, *index, format, threads, inspection, progress, std::move(stop)));
  }
  return inspection;
}

}  // namespace forebay::emulate
