// What jpeg and png share: images are known by content, and generated as grey noise.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "formats/format.h"

namespace forebay::formats {

// Format::family of what read_image() reads.
constexpr std::string_view kImageFamily = "image";

// The encoded image. Extensions lie: a PNG named .jpeg comes back as kPng. kCorruption "empty
// file", "not an image: text/html", kUnsupported for images of other kinds ("image/gif").
Result<Record> read_image(std::string_view path, std::span<const std::byte> bytes);

// The spec of one 8-bit grey image, as DLIO makes it: rows x columns, or the first two dimensions
// of the shape; samples per file do not count. kInvalidArgument when a side is 0.
Result<FileSpec> grey_image_spec(const FileSpec& spec);

}  // namespace forebay::formats
