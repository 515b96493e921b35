// What the parts of samples have in common: what bytes of unknown kind are, which parts are wanted.
//
// Functions are safe to call from any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"

namespace forebay::formats {

// An image by its content, else kRaw.
Record record_of_content(std::span<const std::byte> bytes);
// kCorruption "not UTF-8 at byte N".
Status check_text(std::span<const std::byte> bytes);

// Whether `columns` (empty = all) has `name`.
bool is_wanted(const std::vector<std::string>& columns, std::string_view name);
// kCorruption naming the first of `columns` that is not among `parts`, and what there is instead.
Status check_wanted(const std::vector<std::string>& columns, const std::vector<Part>& parts);

}  // namespace forebay::formats
