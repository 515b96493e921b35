#include "loader/plain_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace forebay::loader {
namespace {

constexpr uint64_t kOneReadBytes = 128 << 10;
constexpr size_t kReadsForOneMax = 32;

// As numpy's C order on this machine has it.
bool is_as_in_memory(const formats::ArrayLayout& array) {
  return !array.is_big_endian && (!array.is_fortran_order || array.shape.size() < 2);
}

// The class of the folder, behind the only part that files of records and rows have.
bool is_label(const dataset::Catalog& catalog, std::span<const FieldSpec> specs, size_t field) {
  const FieldSpec& spec = specs[field];
  return field > 0 && catalog.labels() != nullptr && spec.name == "label" && spec.is_stacked &&
         spec.type == formats::ElementType::kI64 && spec.shape.empty();
}

}  // namespace

PlainRows::PlainRows(const dataset::Catalog& catalog, const EngineOptions& options)
    : catalog_(catalog) {
  if (!options.fields || !options.fields->unchanged_from || options.preprocess_ns ||
      options.sample_cache || options.payload != Payload::kDecode)
    return;
  const std::span<const FieldSpec> specs = options.fields->schema.fields();
  size_t arrays = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == "__key__" && specs[i].kind == ops::FieldKind::kText) {
      key_ = i;
    } else if (is_label(catalog, specs, i)) {
      label_ = i;
    } else {
      ++arrays;
      array_ = i;
    }
  }
  const uint32_t file = *options.fields->unchanged_from;
  const formats::FileIndex& layout = catalog.file_index(file);
  const FieldSpec& spec = specs[array_];
  if (arrays != 1 || !spec.is_stacked || layout.access != formats::Access::kExtents ||
      !layout.extent_array || !is_as_in_memory(*layout.extent_array) ||
      layout.extent_array->type != spec.type || layout.extent_array->shape != spec.shape)
    return;
  row_bytes_ = spec.bytes;
  if (row_bytes_ > 0) model_ = file;
}

bool PlainRows::is_plain(uint32_t file) const {
  if (file == *model_) return true;
  const formats::FileIndex& model = catalog_.file_index(*model_);
  const formats::FileIndex& layout = catalog_.file_index(file);
  const uint32_t source = catalog_.source_of(file), model_source = catalog_.source_of(*model_);
  const auto takes_all = [&](uint32_t i) { return catalog_.source(i).options.columns.empty(); };
  const bool has_same_parts =
      source == model_source || (&catalog_.format(file) == &catalog_.format(*model_) &&
                                 takes_all(source) && takes_all(model_source));
  return has_same_parts && layout.access == model.access && layout.detail == model.detail &&
         layout.extent_array && is_as_in_memory(*layout.extent_array) &&
         layout.extent_array->type == model.extent_array->type &&
         layout.extent_array->shape == model.extent_array->shape;
}

size_t PlainRows::reads_for_one() const {
  return model_ ? std::clamp<size_t>(kOneReadBytes / row_bytes_, 1, kReadsForOneMax) : 1;
}

std::byte* PlainRows::row_of(const BatchState& batch, uint32_t slot,
                             const dataset::SampleLocation& where) {
  if (!model_ || where.sample_in_file == 0) return nullptr;
  if (where.file != last_file_) {
    last_file_ = where.file;
    is_last_plain_ = is_plain(where.file);
  }
  if (!is_last_plain_ || where.extent.length != row_bytes_) return nullptr;
  return batch.rows->row(array_, slot).data();
}

std::string_view PlainRows::key_of(uint32_t file, uint64_t sample_in_file) {
  if (file != named_file_) {
    named_file_ = file;
    text_ = catalog_.key_path(file);
    text_ += '#';
    path_bytes_ = text_.size();
  }
  const fmt::format_int number(sample_in_file);
  text_.resize(path_bytes_);
  text_.append(number.data(), number.size());
  return text_;
}

void PlainRows::complete(const Fetch& fetch) {
  for (const Target& target : fetch.targets) {
    SlotState& state = target.batch->slots[target.slot];
    state.sample.sample = state.wanted;
    state.sample.file = fetch.file;
    state.sample.payload_bytes = row_bytes_;
    state.is_good = true;
    if (label_) {
      const int64_t label = catalog_.label(fetch.file).value_or(0);
      std::memcpy(target.batch->rows->row(*label_, target.slot).data(), &label, sizeof label);
      state.sample.payload_bytes += sizeof label;
    }
    if (!key_) continue;
    const std::string_view key = key_of(fetch.file, target.sample);
    target.batch->rows->put_text(target.slot, *key_, key);
    state.sample.payload_bytes += key.size();
  }
}

}  // namespace forebay::loader
