#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "workload/builtin_yaml.h"
#include "workload/rules.h"
#include "workload/state.h"
#include "workload/workload.h"

namespace forebay::workload {

namespace {

constexpr std::string_view kCompatNames[] = {"dlio-main", "mlps-v2.0", "mlps-v3.0"};

struct Text {
  std::string yaml;
  std::string name;
  Source source;
};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

Result<Text> read_source_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, "{}: cannot be opened", path);
  // One byte more than is allowed tells that there is more.
  std::string yaml(DocumentLimits{}.bytes_max + 1, '\0');
  file.read(yaml.data(), static_cast<std::streamsize>(yaml.size()));
  if (file.bad() || (file.fail() && !file.eof()))
    return fail(ErrorCode::kIo, "{}: cannot be read", path);
  yaml.resize(static_cast<size_t>(file.gcount()));
  const std::string_view file_name = std::string_view(path).substr(path.rfind('/') + 1);
  const std::string stem(file_name.substr(0, file_name.rfind('.')));
  return Text{std::move(yaml), stem, {.label = path, .origin = "file " + path}};
}

Result<Text> read_source(std::string_view source) {
  const bool is_path = source.find('/') != std::string_view::npos || ends_with(source, ".yaml") ||
                       ends_with(source, ".yml");
  if (is_path) return read_source_file(std::string(source));
  std::vector<std::string_view> names;
  for (const BuiltinYaml& builtin : builtin_yaml()) {
    names.push_back(builtin.name);
    if (builtin.name != source) continue;
    Source origin{.label = fmt::format("built-in {}", source),
                  .origin = fmt::format("built-in {}", source),
                  .has_lines = false};
    return Text{std::string(builtin.yaml), std::string(source), std::move(origin)};
  }
  return fail(ErrorCode::kInvalidArgument, "{}; a file's path holds '/' or ends in .yaml",
              base::unknown_name_message("workload", source, names));
}

// The path of a key from the root of the document: "output.metric.exclude_start_steps" lies under
// "output:" and "metric:". Prints the headings that the key before did not have.
void append_entry(std::string& out, std::string_view previous, std::string_view key,
                  std::string_view line) {
  const auto parts = base::split(key, '.');
  const auto previous_parts = base::split(previous, '.');
  size_t same = 0;
  while (same + 1 < parts.size() && same + 1 < previous_parts.size() &&
         parts[same] == previous_parts[same])
    ++same;
  for (size_t level = same; level + 1 < parts.size(); ++level) {
    out += fmt::format("{:{}}{}:\n", "", 2 * level, parts[level]);
  }
  out += fmt::format("{:{}}{}: {}\n", "", 2 * (parts.size() - 1), parts.back(), line);
}

// What every value of `state` makes together; `name` holds where no layer names the workload.
Result<Resolved> finish(State& state, const std::string& name, const std::string& name_origin,
                        const ResolveOptions& options) {
  FB_TRY(check_support(state, options));
  Resolved resolved;
  resolved.compat = options.compat;
  resolved.workload = FB_TRY(make_workload(state, options));
  for (const Slot& slot : state.slots()) {
    resolved.settings.push_back(
        {std::string(slot.row->key), slot.shown_value(), std::string(slot.row->unit), slot.origin});
  }
  if (resolved.workload.name.empty()) {
    resolved.workload.name = name;
    Setting& setting = resolved.settings.front();
    setting.value = quoted_if_needed(name);
    setting.origin = name_origin;
  }
  resolved.warnings = state.take_warnings();
  return resolved;
}

}  // namespace

std::string_view compat_name(Compat compat) {
  return kCompatNames[static_cast<size_t>(compat)];
}

std::optional<Compat> compat_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kCompatNames); ++i) {
    if (kCompatNames[i] == name) return static_cast<Compat>(i);
  }
  return std::nullopt;
}

Result<Resolved> resolve(std::string_view source, const std::vector<std::string>& overrides,
                         const ResolveOptions& options) {
  const Text text = FB_TRY(read_source(source));
  const Node root = FB_TRY(parse_document(text.yaml, text.source.label));
  State state;
  FB_TRY(state.apply_document(root, text.source));
  for (size_t i = 0; i < overrides.size(); ++i) {
    FB_TRY(state.apply_override(overrides[i], i + 1));
  }
  return finish(state, text.name, text.source.origin, options);
}

Result<Resolved> resolve_layers(std::string_view name, const std::vector<Layer>& layers,
                                const ResolveOptions& options) {
  State state;
  for (const Layer& layer : layers) {
    const Source source{.label = layer.label, .origin = layer.origin, .has_lines = layer.has_lines};
    FB_TRY(state.apply_document(layer.root, source));
  }
  return finish(state, std::string(name), layers.empty() ? "default" : layers[0].origin, options);
}

std::string to_yaml(const Resolved& resolved) {
  std::string out =
      fmt::format("# Resolved workload (--compat {}); each line says where its value came from.\n",
                  compat_name(resolved.compat));
  std::string previous;
  const auto rows = all_rows();
  for (size_t i = 0; i < resolved.settings.size() && i < rows.size(); ++i) {
    const Setting& setting = resolved.settings[i];
    const Row& row = *rows[i];
    // Keys that change nothing are written only where somebody set them; secrets never are.
    const bool is_silent = row.store == nullptr && setting.origin == "default";
    if (is_silent || row.is_secret) continue;
    std::string origin = setting.origin;
    std::replace(origin.begin(), origin.end(), '\n', ' ');
    append_entry(out, previous, setting.key, fmt::format("{}  # {}", setting.value, origin));
    previous = setting.key;
  }
  return out;
}

}  // namespace forebay::workload
