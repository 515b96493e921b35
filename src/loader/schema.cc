#include "loader/schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace forebay::loader {

Result<Schema> Schema::make(std::string_view path, std::span<const ops::Field> fields,
                            const std::function<bool(std::string_view)>& is_ragged) {
  if (fields.empty()) return fail(ErrorCode::kUnsupported, "{}: the ops leave no field", path);
  Schema schema;
  schema.path_ = path;
  for (const ops::Field& field : fields) {
    if (schema.find(field.name) < schema.fields_.size())
      return fail(ErrorCode::kUnsupported, "{}: two fields are named '{}'", path, field.name);
    const bool is_stacked = field.kind == ops::FieldKind::kArray && !is_ragged(field.name);
    schema.fields_.push_back({.name = std::string(field.name),
                              .kind = field.kind,
                              .is_stacked = is_stacked,
                              .type = field.type,
                              .shape = field.shape,
                              .bytes = field.bytes.size()});
  }
  // The key tells samples apart for people; what is trained on comes first.
  std::stable_partition(schema.fields_.begin(), schema.fields_.end(),
                        [](const FieldSpec& spec) { return spec.name != "__key__"; });
  return schema;
}

size_t Schema::find(std::string_view name) const {
  const auto found = std::find_if(fields_.begin(), fields_.end(),
                                  [&](const FieldSpec& spec) { return spec.name == name; });
  return static_cast<size_t>(found - fields_.begin());
}

uint64_t Schema::stacked_bytes() const {
  uint64_t bytes = 0;
  for (const FieldSpec& spec : fields_) bytes += spec.is_stacked ? spec.bytes : 0;
  return bytes;
}

uint64_t Schema::separate_bytes() const {
  uint64_t bytes = 0;
  for (const FieldSpec& spec : fields_) bytes += spec.is_stacked ? 0 : spec.bytes;
  return bytes;
}

Status Schema::check(const FieldSpec& spec, std::string_view path, const ops::Field& field) const {
  const bool has_same_type =
      field.kind == spec.kind && (field.kind != ops::FieldKind::kArray || field.type == spec.type);
  if (has_same_type && (!spec.is_stacked || field.shape == spec.shape)) return {};
  return fail(ErrorCode::kUnsupported,
              "{}: field '{}' is {}, but {} in {}: make them equal (resize, crop, pad, convert) or "
              "keep each by itself (ragged)",
              path, spec.name, describe_field(field.kind, field.type, field.shape),
              describe_field(spec.kind, spec.type, spec.shape), path_);
}

std::string describe_field(ops::FieldKind kind, formats::ElementType type,
                           std::span<const uint64_t> shape) {
  if (kind == ops::FieldKind::kText) return "text";
  if (kind == ops::FieldKind::kBytes) return "bytes";
  return fmt::format("{} [{}]", formats::element_name(type), fmt::join(shape, ", "));
}

}  // namespace forebay::loader
