#include "loader/sample_parts.h"

#include <algorithm>
#include <span>

namespace forebay::loader {

bool SampleParts::has(std::string_view name) const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [&](const formats::Part& part) { return part.name == name; });
}

void SampleParts::complete(const dataset::Catalog& catalog, uint64_t sample, uint32_t file) {
  if (const std::optional<int64_t> label = catalog.label(file); label && !has("label")) {
    label_ = *label;
    formats::Part part{.name = "label"};
    part.record.encoding = formats::Encoding::kArray;
    part.record.bytes = std::as_bytes(std::span(&label_, 1));
    part.record.array.type = formats::ElementType::kI64;
    parts_.push_back(std::move(part));
  }
  if (has("__key__")) return;
  key_ = catalog.key(sample);
  formats::Part part{.name = "__key__"};
  part.record.encoding = formats::Encoding::kText;
  part.record.bytes = std::as_bytes(std::span(key_.data(), key_.size()));
  parts_.push_back(std::move(part));
}

}  // namespace forebay::loader
