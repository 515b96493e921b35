// Which files a generator makes: DLIO's names and DLIO's sizes.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/random.h"
#include "dataset/generator.h"

namespace forebay::dataset {
namespace {

constexpr uint64_t kBytesMax = uint64_t{1} << 62;
// A plan is held in memory, about 250 bytes a file.
constexpr uint64_t kFilesMax = 100'000'000;

// a * b, or nothing above kBytesMax.
std::optional<uint64_t> product(uint64_t a, uint64_t b) {
  if (a != 0 && b > kBytesMax / a) return std::nullopt;
  return a * b;
}

size_t digits(uint64_t n) {
  return std::to_string(n).size();
}

// <split>/[<k>/]<prefix>_<i>_of_<N>.<extension>[.<packed>], k = i mod subfolders.
std::string file_path(const GeneratorOptions& options, std::string_view split, uint64_t index,
                      uint64_t count, uint64_t subfolders) {
  std::string path = fmt::format("{}/", split);
  if (subfolders > 1) path += fmt::format("{:0{}}/", index % subfolders, digits(subfolders));
  path += fmt::format("{}_{:0{}}_of_{}.{}", options.file_prefix, index, digits(count), count,
                      options.format->file_extension.empty() ? options.format->name
                                                             : options.format->file_extension);
  if (options.format->name_suffix != nullptr)
    path += options.format->name_suffix(options.common.compression);
  return path;
}

Status check_numbers(const GeneratorOptions& options) {
  const auto is_size = [](double bytes, double least) {
    return bytes >= least && bytes <= static_cast<double>(kBytesMax);  // false for NaN
  };
  if (!is_size(options.record_bytes, 1))
    return fail(ErrorCode::kInvalidArgument, "record length {} bytes: must be 1 to 2^62",
                options.record_bytes);
  if (!is_size(options.record_bytes_stdev, 0))
    return fail(ErrorCode::kInvalidArgument,
                "standard deviation of the record length {} bytes: must be 0 to 2^62",
                options.record_bytes_stdev);
  if (options.samples_per_file == 0)
    return fail(ErrorCode::kInvalidArgument, "0 samples in each file: must be at least 1");
  if (!options.record_dims.empty() && options.record_bytes_stdev > 0)
    return fail(ErrorCode::kInvalidArgument,
                "record dimensions exclude a standard deviation of the record length ({} bytes)",
                options.record_bytes_stdev);
  const uint64_t most = std::max(options.files_train, options.files_valid);
  if (most > kFilesMax || options.files_train + options.files_valid > kFilesMax)
    return fail(ErrorCode::kInvalidArgument, "{} + {} files: the most is {}", options.files_train,
                options.files_valid, kFilesMax);
  if (most == 0) return fail(ErrorCode::kInvalidArgument, "no files to generate: 0 + 0");
  return {};
}

Status check_names(const GeneratorOptions& options) {
  if (options.format == nullptr)
    return fail(ErrorCode::kInvalidArgument, "no format to generate files in");
  if (options.format->write == nullptr)
    return fail(ErrorCode::kUnsupported, "format {} cannot be written", options.format->name);
  FB_TRY(formats::check_compression(*options.format, options.common.compression));
  if (options.file_prefix.find_first_of(std::string_view("/\0", 2)) != std::string::npos)
    return fail(ErrorCode::kInvalidArgument, "file prefix '{}': must not hold '/'",
                options.file_prefix);
  return {};
}

// Payload of one file, so that impossible ones are refused before a format multiplies.
Status check_payload(const formats::FileSpec& spec) {
  std::vector<uint64_t> dims = spec.shape;
  if (dims.empty()) dims = {spec.rows, spec.columns};
  std::optional<uint64_t> bytes = formats::element_bytes(spec.type);
  for (const uint64_t dim : dims) {
    if (dim == 0)
      return fail(ErrorCode::kInvalidArgument, "record dimensions hold a 0: must be at least 1");
    if (bytes) bytes = product(*bytes, dim);
  }
  if (bytes) bytes = product(*bytes, spec.sample_count);
  if (!bytes)
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} samples of the record length asked for are more than 2^62 bytes", spec.path,
                spec.sample_count);
  return {};
}

// raw is no format of DLIO's: its records have the length asked for, not a square near it, so that
// the same keys read what they made.
void set_exact_record(const GeneratorOptions& options, formats::FileSpec& spec) {
  if (options.format->name != "raw" || options.record_bytes_stdev > 0) return;
  const auto bytes = static_cast<uint64_t>(options.record_bytes);
  if (bytes % formats::element_bytes(spec.type) != 0) spec.type = formats::ElementType::kU8;
  spec.rows = 1;
  spec.columns = bytes / formats::element_bytes(spec.type);
}

// Two sides for each file. All draws come from one stream, file after file, train before valid.
class SideSource {
 public:
  explicit SideSource(const GeneratorOptions& options)
      : side_(std::floor(std::sqrt(options.record_bytes))),
        stdev_(options.record_bytes_stdev / 2 / std::sqrt(options.record_bytes)),
        random_(options.size_seed) {}

  uint64_t next() {
    if (stdev_ == 0) return static_cast<uint64_t>(side_);
    const double drawn = random_.normal(side_, stdev_);
    // The cast truncates towards zero, as DLIO's does. Sides past 2^62 are refused with the
    // payload.
    return static_cast<uint64_t>(std::clamp(drawn, 1.0, static_cast<double>(kBytesMax)));
  }

 private:
  double side_, stdev_;
  base::NumpyLegacyRandom random_;
};

}  // namespace

Result<GeneratorPlan> plan_generation(const GeneratorOptions& options) {
  FB_TRY(check_names(options));
  FB_TRY(check_numbers(options));

  GeneratorPlan plan;
  plan.files.reserve(options.files_train + options.files_valid);
  SideSource sides(options);
  const auto add = [&](std::string_view split, uint64_t count, uint64_t subfolders) -> Status {
    for (uint64_t i = 0; i < count; ++i) {
      formats::FileSpec spec = options.common;
      spec.path = file_path(options, split, i, count, subfolders);
      spec.shape = options.record_dims;
      spec.sample_count = options.samples_per_file;
      spec.seed = base::derive_seed(options.seed, plan.files.size());
      spec.rows = sides.next();
      spec.columns = sides.next();
      set_exact_record(options, spec);
      FB_TRY(check_payload(spec));
      const uint64_t bytes = options.format->estimate_bytes(spec);
      if (bytes > kBytesMax - plan.bytes)
        return fail(ErrorCode::kInvalidArgument, "the {} files asked for are more than 2^62 bytes",
                    options.files_train + options.files_valid);
      plan.bytes += bytes;
      plan.files.push_back(std::move(spec));
    }
    return {};
  };
  FB_TRY(add("train", options.files_train, options.subfolders_train));
  FB_TRY(add("valid", options.files_valid, options.subfolders_valid));
  return plan;
}

}  // namespace forebay::dataset
