// The list of formats: a new one adds its declaration to builtin.h and its line here.
#include "formats/builtin.h"

#include <array>

#include "base/text.h"

namespace forebay::formats {
namespace {

constexpr std::array kFormats{
    &kJpeg, &kNpy, &kNpz, &kParquet, &kPng, &kRaw, &kTfrecord,
};

std::string_view extension_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos || (slash != std::string_view::npos && dot < slash)) return "";
  return path.substr(dot + 1);
}

}  // namespace

std::span<const Format* const> builtin_formats() {
  return kFormats;
}

const Format* find_format(std::string_view name) {
  const std::string wanted = base::to_lower(name);
  for (const Format* format : kFormats) {
    if (format->name == wanted) return format;
    for (const std::string_view extension : format->extensions)
      if (extension == wanted) return format;
  }
  return nullptr;
}

const Format* recognise_format(std::string_view path, std::span<const std::byte> head) {
  for (const Format* format : kFormats)
    if (format->recognises(head)) return format;
  const std::string_view extension = extension_of(path);
  return extension.empty() ? nullptr : find_format(extension);
}

}  // namespace forebay::formats
