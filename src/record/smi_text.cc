#include "record/smi_text.h"

#include "base/text.h"
#include "base/units.h"

namespace forebay::record {
namespace {

std::optional<double> number(std::string_view text) {
  const auto value = base::parse_double(base::trim(text));
  if (!value.ok() || !(*value >= 0)) return std::nullopt;
  return *value;
}

}  // namespace

std::optional<SmiLine> parse_smi_line(std::string_view line) {
  const auto fields = base::split(line, ',');
  if (fields.size() != 6) return std::nullopt;
  const auto index = number(fields[0]);
  if (!index || *index > 4096) return std::nullopt;
  SmiLine read{
      .index = static_cast<int>(*index), .name = std::string(base::trim(fields[1])), .reading = {}};
  if (const auto per_cent = number(fields[2])) read.reading.busy_share = *per_cent / 100;
  if (const auto per_cent = number(fields[3])) read.reading.memory_busy_share = *per_cent / 100;
  if (const auto mib = number(fields[4]))
    read.reading.used_bytes = static_cast<uint64_t>(*mib * (1 << 20));
  read.reading.power_watts = number(fields[5]);
  return read;
}

}  // namespace forebay::record
