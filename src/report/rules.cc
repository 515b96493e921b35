#include "report/rules.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.h"

namespace forebay::report {

namespace {

using base::format_count;
using emulate::RequiredSize;
using emulate::RulesReport;
using Json = nlohmann::ordered_json;

// Of one quantity for people: "1.23 TB (1 230 000 000 000 bytes)".
std::string bytes_and_exact(uint64_t bytes) {
  return fmt::format("{} ({} bytes)", base::format_bytes(static_cast<double>(bytes)),
                     base::format_count(bytes));
}

std::string row(std::string_view label, const std::string& text) {
  return fmt::format("{:<18}{}\n", label, text);
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

std::string_view outcome_name(RulesReport::Outcome outcome) {
  switch (outcome) {
    case RulesReport::Outcome::kValid:
      return "valid";
    case RulesReport::Outcome::kOpen:
      return "open";
    case RulesReport::Outcome::kInvalid:
      break;
  }
  return "invalid";
}

Json rules_json(const RulesReport& report) {
  Json json{{"rules", report.rules}, {"outcome", outcome_name(report.outcome)}};
  Json& findings = json["findings"] = Json::array();
  for (const RulesReport::Finding& finding : report.findings)
    findings.push_back(Json{{"outcome", outcome_name(finding.outcome)},
                            {"rule", finding.rule},
                            {"text", finding.text}});
  json["notes"] = report.notes;
  json["not_checked"] = report.not_checked;
  return json;
}

std::string rules_text(const RulesReport& report) {
  std::string text =
      fmt::format("{:<12}{}: {}", "rules", report.rules, outcome_name(report.outcome));
  if (report.outcome == RulesReport::Outcome::kValid) text += " for the closed division";
  if (!report.findings.empty())
    text += fmt::format(", {} finding{}", report.findings.size(),
                        report.findings.size() == 1 ? "" : "s");
  text += "\n";
  for (const RulesReport::Finding& finding : report.findings)
    text +=
        fmt::format("  {:<10}{}: {}\n", outcome_name(finding.outcome), finding.rule, finding.text);
  for (const std::string& note : report.notes) text += fmt::format("  {:<10}{}\n", "note", note);
  for (const std::string& what : report.not_checked)
    text += fmt::format("  {:<10}{}\n", "unchecked", what);
  return text;
}

std::string size_text(const SizeQuestion& question, const RequiredSize& size) {
  const bool steps_decide = size.files_for_steps > size.files_for_memory;
  std::string text = row("workload", question.workload);
  text += row("rules", question.rules + (question.note.empty() ? "" : ": " + question.note));
  text += row("accelerators",
              fmt::format("{} on each of {} host{}", format_count(question.accelerators),
                          format_count(question.hosts), question.hosts == 1 ? "" : "s"));
  text += row("memory",
              fmt::format("{} on each host", base::format_memory(question.host_memory_bytes)));
  text += row("files", fmt::format("{} (steps ask for {}, memory for {}: {} decide{})",
                                   format_count(size.files), format_count(size.files_for_steps),
                                   format_count(size.files_for_memory),
                                   steps_decide ? "steps" : "memory", steps_decide ? "" : "s"));
  if (size.reference_files != size.files)
    text += row("", fmt::format("mlpstorage says {}: it rounds down, and so misses the rule by "
                                "part of a file",
                                format_count(size.reference_files)));
  text += row("samples", fmt::format("{} ({} in each file)", format_count(size.samples),
                                     format_count(question.samples_per_file)));
  text += row("bytes", bytes_and_exact(size.bytes) + ", as the rules count them");
  if (size.disk_bytes)
    text += row("on disk", (size.is_disk_bytes_bound ? "at most " : "about ") +
                               base::format_bytes(static_cast<double>(*size.disk_bytes)));
  text += row("subfolders", size.subfolders == 0 ? "none needed" : format_count(size.subfolders));
  text += row("steps per epoch", format_count(size.steps_per_epoch));
  if (size.bytes_per_second)
    text +=
        row("one accelerator", fmt::format("takes {:.1f} samples/s, {}", *size.samples_per_second,
                                           base::format_bytes_per_second(*size.bytes_per_second)));
  if (size.bytes_per_second) {
    const auto all = static_cast<double>(question.accelerators * question.hosts);
    text += row("all of them", base::format_bytes_per_second(all * *size.bytes_per_second));
  }
  std::string keys = fmt::format("dataset.num_files_train={}", size.files);
  if (size.subfolders > 0) keys += fmt::format(" dataset.num_subfolders_train={}", size.subfolders);
  return text + row("next", fmt::format("{} {} --data DIR", question.generate_command, keys));
}

std::string size_json(const SizeQuestion& question, const RequiredSize& size) {
  const Json json{{"workload", question.workload},
                  {"rules", question.rules},
                  {"rules_note", question.note.empty() ? Json(nullptr) : Json(question.note)},
                  {"accelerators_per_host", question.accelerators},
                  {"hosts", question.hosts},
                  {"host_memory_bytes", question.host_memory_bytes},
                  {"files", size.files},
                  {"files_for_steps", size.files_for_steps},
                  {"files_for_memory", size.files_for_memory},
                  {"mlpstorage_files", size.reference_files},
                  {"samples", size.samples},
                  {"bytes", size.bytes},
                  {"disk_bytes_estimate", or_null(size.disk_bytes)},
                  {"is_disk_bytes_bound", size.is_disk_bytes_bound},
                  {"subfolders", size.subfolders},
                  {"steps_per_epoch", size.steps_per_epoch},
                  {"samples_per_second_per_accelerator", or_null(size.samples_per_second)},
                  {"bytes_per_second_per_accelerator", or_null(size.bytes_per_second)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace forebay::report
