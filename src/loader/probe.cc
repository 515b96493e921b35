#include "loader/probe.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "formats/content_kind.h"
#include "loader/buffer_pool.h"
#include "loader/sample_parts.h"
#include "loader/together_block.h"

namespace forebay::loader {
namespace {

constexpr int kTriesMax = 16, kCompared = 8;

class NoDestination final : public ops::Destination {
 public:
  std::span<std::byte> place(std::string_view, formats::ElementType,
                             std::span<const uint64_t>) override {
    return {};
  }
};

Status read_whole(storage::Store& store, std::string_view path, formats::Extent extent,
                  std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const size_t got = FB_TRY(store.read_at(path, extent.offset + done, out.subspan(done)));
    if (got == 0)
      return fail(ErrorCode::kCorruption, "{}: ends at byte {}, before the end of its record at {}",
                  path, extent.offset + done, extent.offset + extent.length);
    done += got;
  }
  return {};
}

// The bytes that locate() names: the record, the file, or a block's extents one after the other.
Result<BufferRef> read_record(storage::Store& store, BufferPool& buffers,
                              const dataset::Catalog& catalog,
                              const dataset::SampleLocation& where) {
  BufferRef buffer = buffers.acquire(where.extent.length);
  const std::string_view path = catalog.path(where.file);
  if (where.access != formats::Access::kBlocks) {
    FB_TRY(read_whole(store, path, where.extent, buffer->span()));
    return buffer;
  }
  size_t done = 0;
  for (const formats::Extent& extent : catalog.file_index(where.file).blocks[where.block].extents) {
    FB_TRY(read_whole(store, path, extent, buffer->span().subspan(done, extent.length)));
    done += extent.length;
  }
  return buffer;
}

// What is wrong with a sample that is no fault of its bytes.
struct Lack {
  bool of_field = false;   // it has not what an op asks for
  bool of_memory = false;  // it is larger than the bound allows
};

Result<Probe> try_sample(storage::Store& store, const dataset::Catalog& catalog, uint64_t sample,
                         const ProbeOptions& options, Lack& lack) {
  const dataset::SampleLocation where = catalog.locate(sample);
  const std::string_view path = catalog.path(where.file);
  lack.of_memory = where.extent.length > options.read_bytes_max;
  if (lack.of_memory)
    return fail(ErrorCode::kUnsupported, "{}: {} in one piece is more than memory allows ({})",
                path, base::format_bytes(static_cast<double>(where.extent.length)),
                base::format_bytes(static_cast<double>(options.read_bytes_max)));
  BufferPool buffers(0);
  const BufferRef bytes = FB_TRY(read_record(store, buffers, catalog, where));
  const dataset::CatalogSource& source = catalog.source(catalog.source_of(where.file));
  const auto reader = source.index->format().make_reader(source.options);
  const formats::FileIndex& layout = catalog.file_index(where.file);
  SampleParts parts;
  std::shared_ptr<const formats::DecodedBlock> block;
  if (where.access == formats::Access::kBlocks) {
    block = FB_TRY(reader->decode_block(path, bytes->span(), layout, layout.blocks[where.block]));
  } else if (where.access == formats::Access::kTogether) {
    block = decode_together(*reader, path, bytes, layout, true);
  }
  if (block) {
    const bool has_blocks = where.access == formats::Access::kBlocks;
    FB_TRY(
        block->parts_at(has_blocks ? where.sample_in_block : where.sample_in_file, parts.parts()));
  } else {
    FB_TRY(reader->read_parts(path, bytes->span(), layout, where.sample_in_file, parts.parts()));
  }
  parts.complete(catalog, sample, where.file);
  NoDestination nowhere;
  std::vector<ops::Field> fields;
  const Status done =
      options.make_runner()->run({options.seed, 0, sample}, path, parts.parts(), nowhere, fields);
  lack.of_field = !done.ok() && done.error().code == ErrorCode::kNotFound;
  lack.of_memory = !done.ok() && options.memory != nullptr && options.memory->has_refused();
  FB_TRY(done);
  Probe probe;
  probe.schema = FB_TRY(Schema::make(path, fields, options.is_ragged));
  probe.file = where.file;
  const auto is_image = [](const formats::Part& part) {
    return formats::is_jpeg(part.record.bytes) || formats::is_png(part.record.bytes);
  };
  probe.has_images = std::any_of(parts.parts().begin(), parts.parts().end(), is_image);
  probe.unit_bytes = block ? std::max<uint64_t>(1, block->bytes()) : 0;
  if (block)
    probe.unit_samples = where.access == formats::Access::kBlocks
                             ? layout.blocks[where.block].sample_count
                             : layout.sample_count;
  return probe;
}

// The next sample that does not share the file or block of this one.
uint64_t next_apart(const dataset::Catalog& catalog, uint64_t sample) {
  const dataset::SampleLocation where = catalog.locate(sample);
  const formats::FileIndex& layout = catalog.file_index(where.file);
  if (where.access == formats::Access::kTogether)
    return sample + layout.sample_count - where.sample_in_file;
  if (where.access == formats::Access::kBlocks)
    return sample + layout.blocks[where.block].sample_count - where.sample_in_block;
  return sample + 1;
}

Status check_alike(const Schema& first, const Schema& other) {
  for (const FieldSpec& spec : first.fields()) {
    const size_t at = other.find(spec.name);
    if (at == other.fields().size()) continue;
    const FieldSpec& theirs = other.fields()[at];
    ops::Field field{.name = theirs.name, .kind = theirs.kind};
    field.type = theirs.type;
    field.shape = theirs.shape;
    FB_TRY(first.check(spec, other.path(), field));
  }
  return {};
}

// Of the samples that follow `first`. Those of blocks cost too much to look at, and are arrays.
Status compare_more(storage::Store& store, const dataset::Catalog& catalog, const Schema& first,
                    uint64_t sample, const ProbeOptions& options,
                    std::optional<uint64_t>& bad_sample) {
  std::optional<Error> difference;
  std::optional<uint64_t> differing;
  int good = 0, unlike = 0;
  for (int i = 0; i < kCompared && ++sample < catalog.sample_count(); ++i) {
    const formats::Access access = catalog.locate(sample).access;
    if (access != formats::Access::kWholeFile && access != formats::Access::kExtents) continue;
    Lack lack;
    const Result<Probe> probe = try_sample(store, catalog, sample, options, lack);
    if (!probe.ok()) continue;
    ++good;
    const Status alike = check_alike(first, probe->schema);
    if (alike.ok()) continue;
    ++unlike;
    if (difference) continue;
    difference = alike.error();
    differing = sample;
  }
  if (!difference || 2 * unlike <= good) return {};
  bad_sample = differing;
  return fail(difference->code, "{} of the {} samples after the first are unlike it: {}", unlike,
              good, difference->message);
}

}  // namespace

Result<Probe> probe_first_sample(storage::Store& store, const dataset::Catalog& catalog,
                                 const ProbeOptions& options, std::optional<uint64_t>& bad_sample) {
  std::optional<Error> first;
  bool all_lack_field = true, first_lacks_memory = false;
  uint64_t sample = 0;
  for (int tries = 0; tries < kTriesMax && sample < catalog.sample_count(); ++tries) {
    Lack lack;
    Result<Probe> probe = try_sample(store, catalog, sample, options, lack);
    if (probe.ok() && options.compares_more)
      FB_TRY(compare_more(store, catalog, probe->schema, sample, options, bad_sample));
    if (probe.ok()) {
      bad_sample.reset();
      return probe;
    }
    if (!first) {
      first = probe.error();
      bad_sample = sample;
      first_lacks_memory = lack.of_memory;
    }
    all_lack_field = all_lack_field && lack.of_field;
    // A wrong request, or a machine that lacks something, is wrong for every sample.
    const ErrorCode code = probe.error().code;
    if (code == ErrorCode::kInvalidArgument || code == ErrorCode::kResourceExhausted) break;
    sample = next_apart(catalog, sample);
  }
  if (!first) return fail(ErrorCode::kNotFound, "the data set has no samples");
  const ErrorCode code = all_lack_field       ? ErrorCode::kInvalidArgument
                         : first_lacks_memory ? ErrorCode::kResourceExhausted
                                              : first->code;
  if (code == ErrorCode::kInvalidArgument) bad_sample.reset();  // the request is, not the sample
  return fail(code, "no sample at the beginning of the data set is good; the first: {}",
              first->message);
}

}  // namespace forebay::loader
