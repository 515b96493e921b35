// synthetic: samples that no file holds. The files only make a data set of the right number; none
// of their bytes is read, so a run measures everything but storage.
#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/builtin.h"
#include "formats/payload.h"

namespace forebay::formats {
namespace {

constexpr Compression kCompressions[] = {Compression::kNone};
constexpr std::string_view kExtensions[] = {"synthetic"};

bool recognises(std::span<const std::byte> /*head*/) {
  return false;
}  // a few digits could be anything

// Every sample is an extent of 0 bytes: what a result says was read is what was read.
Result<FileIndex> index(storage::Store& /*store*/, const storage::FileInfo& /*file*/,
                        const FormatOptions& options) {
  FileIndex result{.access = Access::kExtents};
  result.sample_count = std::max<uint64_t>(1, options.samples_per_file);
  result.extents = ExtentList::even({}, 0, result.sample_count);
  return result;
}

// The same sample every time: as many zeros as the caller says a record has, or none.
class SyntheticReader : public Reader {
 public:
  explicit SyntheticReader(uint64_t record_bytes) : sample_(record_bytes) {}

  Result<Record> read(std::string_view path, std::span<const std::byte> bytes,
                      const FileIndex& index, uint64_t sample_in_file) override {
    if (sample_in_file >= index.extents.size() || !bytes.empty())
      return fail(ErrorCode::kInvalidArgument, "{}: synthetic samples are not read from files",
                  path);
    return Record{.encoding = Encoding::kRaw, .bytes = sample_};
  }

 private:
  const std::vector<std::byte> sample_;
};

// The number of the file, as in "img_07_of_12.synthetic"; 0 for other names.
std::string content_of(const FileSpec& spec) {
  const std::string_view name = std::string_view(spec.path).substr(spec.path.rfind('/') + 1);
  const size_t end = std::min(name.rfind("_of_"), name.size());
  const size_t start = name.rfind('_', end == 0 ? 0 : end - 1) + 1;
  uint64_t number = 0;
  std::from_chars(name.data() + start, name.data() + end, number);
  return std::to_string(number);
}

Status write(storage::Writer& writer, bool /*can_patch*/, const FileSpec& spec) {
  FB_TRY(check_spec(spec));
  const std::string content = content_of(spec);
  return writer.append(std::as_bytes(std::span(content)));
}

uint64_t estimate_bytes(const FileSpec& spec) {
  return content_of(spec).size();
}

}  // namespace

const Format kSynthetic{.name = "synthetic",
                        .summary = "a constant sample without any reading",
                        .extensions = kExtensions,
                        .recognises = recognises,
                        .index = index,
                        .make_reader = [](const FormatOptions& options) -> std::unique_ptr<Reader> {
                          return std::make_unique<SyntheticReader>(options.record_bytes);
                        },
                        .compressions = kCompressions,
                        .write = write,
                        .estimate_bytes = estimate_bytes};

}  // namespace forebay::formats
