#include "loader/batch_fields.h"

#include "loader/field_rows.h"

namespace forebay::loader {
namespace {

FieldKind kind_of(const FieldSpec& spec) {
  if (spec.kind == ops::FieldKind::kText) return FieldKind::kText;
  if (spec.kind == ops::FieldKind::kBytes) return FieldKind::kBytes;
  return spec.is_stacked ? FieldKind::kStacked : FieldKind::kArrays;
}

std::string_view element_of(const FieldSpec& spec) {
  return spec.kind == ops::FieldKind::kArray ? formats::element_name(spec.type) : "";
}

}  // namespace

BatchFields::BatchFields(const Batch& batch, const dataset::Catalog& catalog) {
  const FieldRows& rows = *batch.fields();
  const std::span<const FieldSpec> specs = rows.schema().fields();
  shapes_.resize(specs.size());  // spans point into both: they never grow again
  each_.resize(specs.size());
  samples_.reserve(batch.samples().size());
  fields_.reserve(specs.size());
  uint32_t file = UINT32_MAX;
  std::string_view path;
  for (const LoadedSample& sample : batch.samples()) {
    if (sample.file != file) path = catalog.path(file = sample.file);
    samples_.push_back({.id = sample.sample,
                        .path = path,
                        .element_type = element_of(specs[0]),
                        .shape = {},
                        .bytes = {},
                        .is_replaced = sample.is_replaced});
  }
  for (size_t field = 0; field < specs.size(); ++field) add_field(rows, field);
  for (size_t row = 0; row < samples_.size(); ++row) {
    Sample& sample = samples_[row];
    if (specs[0].is_stacked) {
      sample.shape = specs[0].shape;
      sample.bytes = rows.stacked(0).subspan(row * specs[0].bytes, specs[0].bytes);
    } else {
      sample.shape = rows.values(0)[row].shape;
      sample.bytes = rows.values(0)[row].bytes;
    }
  }
}

void BatchFields::add_field(const FieldRows& rows, size_t field) {
  const FieldSpec& spec = rows.schema().fields()[field];
  BatchField out{.name = spec.name,
                 .kind = kind_of(spec),
                 .element_type = element_of(spec),
                 .shape = {},
                 .bytes = {},
                 .each = {},
                 .owner = rows.owner(field)};
  if (spec.is_stacked) {
    shapes_[field] = {rows.rows()};
    shapes_[field].insert(shapes_[field].end(), spec.shape.begin(), spec.shape.end());
    out.shape = shapes_[field];
    out.bytes = rows.stacked(field);
  } else {
    const std::span<const FieldValue> values = rows.values(field);
    each_[field].reserve(values.size());
    for (size_t row = 0; row < values.size(); ++row) {
      const Sample value{.id = row < samples_.size() ? samples_[row].id : 0,
                         .path = row < samples_.size() ? samples_[row].path : std::string_view(),
                         .element_type = out.element_type,
                         .shape = values[row].shape,
                         .bytes = values[row].bytes,
                         .is_replaced = row < samples_.size() && samples_[row].is_replaced};
      each_[field].push_back(value);
    }
    out.each = each_[field];
  }
  fields_.push_back(out);
}

}  // namespace forebay::loader
