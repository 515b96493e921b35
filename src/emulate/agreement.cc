#include "emulate/agreement.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/crc.h"
#include "base/error.h"
#include "base/text.h"
#include "emulate/packing.h"
#include "emulate/runner.h"

namespace forebay::emulate {
namespace {

std::string text_of(const Items& items) {
  Packer packer;
  packer.put<uint64_t>(items.size());
  for (const auto& [name, value] : items) {
    packer.put(name);
    packer.put(value);
  }
  return packer.take();
}

Items items_of(std::string_view bytes) {
  Unpacker unpacker(bytes);
  Items items(unpacker.count());
  for (auto& [name, value] : items) {
    unpacker.get(name);
    unpacker.get(value);
  }
  return items;
}

// "train.epochs is 5, rank 0 on host0 has 2"; "" when nothing differs.
std::string first_difference(const Items& first, const Items& other,
                             const std::string& first_name) {
  for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
    if (i >= other.size() || (i < first.size() && first[i].first != other[i].first))
      return fmt::format("it knows no {}, as {} does", first[std::min(i, first.size() - 1)].first,
                         first_name);
    if (i >= first.size())
      return fmt::format("it knows {}, which {} does not", other[i].first, first_name);
    if (first[i].second == other[i].second) continue;
    if (first[i].second.empty())
      return fmt::format("{} is {}, but not given to {}", other[i].first, other[i].second,
                         first_name);
    return fmt::format("{} is {}, {} has {}", other[i].first,
                       other[i].second.empty() ? "not given" : other[i].second, first_name,
                       first[i].second);
  }
  return "";
}

struct FileList {
  uint64_t files = 0, bytes = 0, samples = 0;
  uint64_t check = 0;  // over paths and sizes
};

std::string line_of(const dataset::Index& index, uint32_t file) {
  return fmt::format("{}\t{}\n", index.path(file), index.file_bytes(file));
}

FileList list_of(const dataset::Index& index) {
  FileList list{index.file_count(), index.summary().bytes, index.sample_count(), 0};
  uint32_t crc = 0, crc_c = 0;
  for (uint32_t file = 0; file < index.file_count(); ++file) {
    const std::string line = line_of(index, file);
    const auto bytes = std::as_bytes(std::span(line.data(), line.size()));
    crc = base::crc32(crc, bytes);
    crc_c = base::crc32c(crc_c, bytes);
  }
  list.check = (static_cast<uint64_t>(crc) << 32) | crc_c;
  return list;
}

std::map<std::string, std::string> sizes_of(std::string_view text) {
  std::map<std::string, std::string> sizes;
  for (const std::string_view line : base::split(text, '\n')) {
    const size_t tab = line.rfind('\t');
    if (tab != std::string_view::npos) sizes.emplace(line.substr(0, tab), line.substr(tab + 1));
  }
  return sizes;
}

std::string first_file_that_differs(std::string_view first, std::string_view other) {
  const auto theirs = sizes_of(other), ours = sizes_of(first);
  for (const auto& [path, size] : ours) {
    const auto it = theirs.find(path);
    if (it == theirs.end()) return fmt::format("{} is missing there", path);
    if (it->second != size)
      return fmt::format("{} has {} bytes there, not {}", path, it->second, size);
  }
  for (const auto& [path, size] : theirs)
    if (!ours.contains(path)) return fmt::format("{} is only there", path);
  return "their samples differ";
}

}  // namespace

Items items_of(const workload::Resolved& resolved, const std::string& version) {
  Items items{{"the version of Forebay", version},
              {"--compat", std::string(workload::compat_name(resolved.compat))},
              {"the workload", resolved.workload.name}};
  for (const workload::Setting& setting : resolved.settings)
    if (!setting.key.ends_with("_folder") && setting.key != "storage.storage_root")
      items.emplace_back(setting.key, setting.value);
  return items;
}

Items items_of(const RunRequest& request) {
  const RunOptions& options = request.options;
  const bool has_limit = options.errors_max != UINT64_MAX;
  Items items = items_of(request.resolved, request.version);
  const Items more{{"--storage", options.storage},
                   {"--payload", options.payload},
                   {"--cache", options.cache},
                   {"--on-error", options.on_error},
                   {"--errors-max", has_limit ? fmt::format("{}", options.errors_max) : ""},
                   {"--decode-threads", fmt::format("{}", options.decode_threads)},
                   {"--no-barrier", options.barrier ? "off" : "on"},
                   {"--rules", options.rules}};
  items.insert(items.end(), more.begin(), more.end());
  return items;
}

Status agree_on(const Items& mine, cluster::World& world, std::stop_token stop) {
  if (world.size() == 1) return {};
  const std::vector<std::string> all = FB_TRY(world.gather(text_of(mine), std::move(stop)));
  const Items first = items_of(all[0]);
  for (int rank = 1; rank < world.size(); ++rank) {
    const std::string difference = first_difference(first, items_of(all[static_cast<size_t>(rank)]),
                                                    cluster::name_of(world, 0));
    if (!difference.empty())
      return fail(ErrorCode::kInvalidArgument, "{} was started differently: {}",
                  cluster::name_of(world, rank), difference);
  }
  return {};
}

Status agree_on_files(const dataset::Index& index, const std::string& folder, cluster::World& world,
                      std::stop_token stop) {
  if (world.size() == 1) return {};
  const FileList mine = list_of(index);
  Packer packer;
  packer.put(mine);
  const std::vector<std::string> all = FB_TRY(world.gather(packer.take(), stop));
  std::vector<FileList> lists(all.size());
  int differs = 0;  // the first rank that does
  for (size_t rank = 0; rank < all.size(); ++rank) {
    Unpacker unpacker(all[rank]);
    unpacker.get(lists[rank]);
    const bool is_equal =
        lists[rank].check == lists[0].check && lists[rank].samples == lists[0].samples;
    if (!is_equal && differs == 0) differs = static_cast<int>(rank);
  }
  if (differs == 0) return {};
  // Both sides tell their lists, so that everybody can say the same.
  std::string names;
  if (world.rank() == 0 || world.rank() == differs)
    for (uint32_t file = 0; file < index.file_count(); ++file) names += line_of(index, file);
  const std::vector<std::string> texts = FB_TRY(world.gather(names, std::move(stop)));
  const auto other = static_cast<size_t>(differs);
  return fail(ErrorCode::kNotFound,
              "{} sees other data in {}: {} files, {} samples, {} bytes, {} has {}, {}, {}; {}",
              cluster::name_of(world, differs), folder, lists[other].files, lists[other].samples,
              lists[other].bytes, cluster::name_of(world, 0), lists[0].files, lists[0].samples,
              lists[0].bytes, first_file_that_differs(texts[0], texts[other]));
}

}  // namespace forebay::emulate
