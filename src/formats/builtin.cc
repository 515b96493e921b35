// The list of formats: a new one adds its declaration to builtin.h and its line here.
#include "formats/builtin.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"

namespace forebay::formats {
namespace {

constexpr std::array kFormats{
    &kCsv,      &kHdf5,   &kIndexedBinary, &kJpeg, &kLines, &kMmapIndexedBinary,
    &kNpy,      &kNpz,    &kParquet,       &kPng,  &kRaw,   &kSynthetic,
    &kTfrecord, &kTokens, &kWebdataset,
};

constexpr std::array<std::string_view, 4> kPackedExtensions{"gz", "bz2", "zip", "xz"};

bool has_extension(const Format& format, std::string_view extension) {
  return std::find(format.extensions.begin(), format.extensions.end(), extension) !=
         format.extensions.end();
}

// "a.tfrecord" of "a.tfrecord-00003-of-00010", as TensorFlow names the parts of a data set.
std::string_view without_shard(std::string_view name) {
  constexpr std::string_view kOf = "-of-", kDigits = "0123456789";
  const auto cut_number = [&] {
    const size_t end = name.size();
    while (!name.empty() && kDigits.find(name.back()) != std::string_view::npos)
      name.remove_suffix(1);
    return name.size() < end;
  };
  const std::string_view whole = name;
  if (!cut_number() || !name.ends_with(kOf)) return whole;
  name.remove_suffix(kOf.size());
  if (!cut_number() || !name.ends_with('-')) return whole;
  name.remove_suffix(1);
  return name;
}

}  // namespace

std::span<const Format* const> builtin_formats() {
  return kFormats;
}

const Format* find_format(std::string_view name) {
  const std::string wanted = base::to_lower(name);
  for (const Format* format : kFormats)
    if (format->name == wanted || has_extension(*format, wanted)) return format;
  return nullptr;
}

std::string extension_of(std::string_view path) {
  const std::string name = base::to_lower(without_shard(path.substr(path.rfind('/') + 1)));
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0) return {};
  std::string last = name.substr(dot + 1);
  if (std::find(kPackedExtensions.begin(), kPackedExtensions.end(), last) ==
      kPackedExtensions.end())
    return last;
  const size_t before = name.rfind('.', dot - 1);
  if (before == std::string::npos || before == 0) return last;
  const std::string both = name.substr(before + 1);
  return find_format(both) != nullptr ? both : last;
}

Status check_compression(const Format& format, Compression compression) {
  std::vector<std::string_view> taken;
  for (const Compression one : format.compressions) {
    if (one == compression) return {};
    taken.push_back(compression_name(one));
  }
  return fail(ErrorCode::kUnsupported, "{} files are not compressed with {}: {} takes {}",
              format.name, compression_name(compression), format.name, fmt::join(taken, ", "));
}

const Format* recognise_format(std::string_view path, std::span<const std::byte> head) {
  const std::string extension = extension_of(path);
  if (extension.find('.') == std::string::npos)
    for (const Format* format : kFormats)
      if (format->recognises(head)) return format;
  return extension.empty() ? nullptr : find_format(extension);
}

}  // namespace forebay::formats
